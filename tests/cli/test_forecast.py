"""A forecast of several processes: what it says as text and JSON, that its bytes and messages are
those of a real run where MPI is there, its picture and traces, and what it refuses."""
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

from ebbtest import EBB, OPEN_MPI, SANITIZED, Result, ebb, main, mpirun, refused

SMALL = ["--layers", "4", "--hidden", "32", "--vocab", "300", "--batch", "8", "--bptt", "6", "--threads", "1"]
WIRE = ["--network", "1G,50us"]
SVG = "{http://www.w3.org/2000/svg}"


def forecast(ranks, *args, kind="lm", size=SMALL):
    return ebb("plan", kind, *size, "--ranks", ranks, *args, "--json").json()


def near(a, b, share=1e-6):
    return abs(a - b) <= share * max(abs(a), abs(b))


def check(f, ranks, stages):
    """What holds of every forecast."""
    step = f["seconds_per_step"]
    assert len(f["ranks"]) == ranks and f["stages"] == stages, f
    for r, rank in enumerate(f["ranks"]):
        assert rank["rank"] == r and rank["stage"] == r % stages and rank["planned_peak_bytes"] > 0
        assert near(rank["busy_seconds"] + rank["waiting_seconds"], step) and rank["busy_seconds"] > 0
        assert ranks == 1 or (rank["messages"] > 0 and rank["sent_bytes"] > 0)
    waiting = [rank["waiting_seconds"] / step for rank in f["ranks"]]
    assert abs(f["bubble_share"] - sum(waiting) / ranks) < 1e-9 and abs(f["exposed_share"] - max(waiting)) < 1e-9
    assert -1e-9 <= f["message_share"] < 1
    assert f["largest_rank_bytes"] == max(rank["planned_peak_bytes"] for rank in f["ranks"])
    assert near(f["bytes_share"], f["largest_rank_bytes"] / f["one_rank_bytes"])
    assert f["one_rank_fits"] and near(f["speedup"], f["one_rank_seconds"] / step)
    assert f["advice"] in ("data", "stages", "neither")


def test_fields():
    for ranks, stages, args in [(1, 1, []), (2, 1, []), (2, 1, ["--reduce", "central"]), (4, 1, ["--reduce", "copies"]),
                                (2, 2, ["--stages", "2"]), (4, 2, ["--stages", "2"]), (3, 3, ["--stages", "3"]), (4, 1, WIRE)]:
        f = forecast(ranks, *args)
        check(f, ranks, stages)
        assert f["shards"] == ranks // stages
        assert f["network"]["shared_memory"] == ("--network" not in args)


def test_one_is_the_plan():
    """One process alone: the numbers of the plan."""
    f, plan = forecast(1), ebb("plan", "lm", *SMALL, "--json").json()
    assert f["ranks"][0]["planned_peak_bytes"] == plan["peak_bytes"] == f["one_rank_bytes"]
    assert near(f["seconds_per_step"], plan["seconds_per_step"]) and near(f["words_per_second"], plan["words_per_second"])
    assert f["bubble_share"] == f["message_share"] == 0 and near(f["speedup"], 1) and f["advice"] == "neither"


def test_shards_given_count_for_one_process_too():
    f, plan = forecast(2, "--shards", "4"), ebb("plan", "lm", *SMALL, "--shards", "4", "--json").json()
    assert f["shards"] == 4 and f["one_rank_bytes"] == plan["peak_bytes"] and near(f["one_rank_seconds"], plan["seconds_per_step"])
    assert forecast(2)["one_rank_bytes"] == ebb("plan", "lm", *SMALL, "--json").json()["peak_bytes"]


def test_networks_cost_what_they_say():
    fast, slow, far = [forecast(2, "--network", n)["seconds_per_step"] for n in ("100G,1us", "1G,1us", "1G,10ms")]
    assert fast < slow < far
    # Some message of each process waits for another one's: no step is shorter than one latency.
    assert far > 0.01


def test_advice():
    """Both ways are tried where none was asked for, and the faster one is advised, if it is worth it."""
    for args in [], WIRE, ["--network", "1M,100ms"]:
        f = forecast(2, *args)
        ways = {"data": f["data"], "stages": f["pipeline"]}
        assert f["data"]["stages"] == 1 and f["pipeline"]["stages"] == 2
        assert near(f["data"]["seconds_per_step"], f["seconds_per_step"])
        assert near(f["pipeline"]["seconds_per_step"], forecast(2, "--stages", "2", *args)["seconds_per_step"])
        best = min(ways, key=lambda name: ways[name]["seconds_per_step"])
        assert f["advice"] == (best if ways[best]["speedup"] >= 1.1 else "neither"), f
    assert forecast(2, "--network", "1M,100ms")["advice"] == "neither"
    alone = forecast(2, "--stages", "2")
    assert alone["data"] is None and alone["pipeline"]["stages"] == 2
    assert forecast(2, "--reduce", "copies")["pipeline"] is None


def test_too_large_for_one():
    """What one process has no room for may fit several; if not, the rank is named."""
    large = [*SMALL, "--hidden", "160", "--vocab", "2000"]
    least = ebb("plan", "lm", *large, "--json").json()["least_bytes"]
    f = forecast(4, "--stages", "4", "--memory", least - 1, size=large)
    assert not f["one_rank_fits"] and f["speedup"] is None and f["one_rank_seconds"] is None and f["advice"] == "stages"
    assert f["largest_rank_bytes"] < least
    refused(4, "plan", "lm", *SMALL, "--ranks", "4", "--stages", "4", "--memory", "100K", says=["rank 0 of 4", "--memory"])


def test_list_of_memory():
    """Each process has its own budget; layers go where they fit."""
    large = [*SMALL, "--hidden", "160", "--vocab", "2000", "--tune", "off"]
    for other in range(2):
        free = [rank["planned_peak_bytes"] for rank in forecast(2, "--stages", "2", size=large)["ranks"]]
        budgets = [free[rank] * 3 // 4 if rank == other else 1 << 30 for rank in range(2)]
        taken = [rank["planned_peak_bytes"] for rank in forecast(2, "--stages", "2", "--memory", ",".join(map(str, budgets)), size=large)["ranks"]]
        assert taken[other] <= budgets[other] and taken[1 - other] > free[1 - other], (free, budgets, taken)
    refused(4, "plan", "lm", *SMALL, "--ranks", "2", "--memory", "1G,1K", says=["rank 1 of 2", "budget of 1024 bytes"])


def test_chunk_steps():
    """What is chosen is about as fast as what could be said; trials are of plans that save nothing."""
    size = [*SMALL, "--layers", "3", "--hidden", "64", "--bptt", "12", "--tune", "off"]
    chosen = forecast(2, "--stages", "2", size=size)["seconds_per_step"]
    for steps in 2, 3:  # 6 and 4 chunks: among those that are tried
        assert chosen <= 1.1 * forecast(2, "--stages", "2", "--chunk-steps", steps, size=size)["seconds_per_step"], steps


def test_loss_by_chunks():
    """Where one stage has the whole output layer, its loss goes with the chunks of the layers: in one piece the
    others wait for it, and 1.9 is all that can be had here."""
    size = ["--layers", "4", "--hidden", "96", "--embed", "64", "--vocab", "1500", "--batch", "16", "--bptt", "24", "--threads", "1", "--tune", "off"]
    f = forecast(4, "--stages", "4", "--disable", "split", "--chunk-steps", "2", size=size)
    assert f["speedup"] > 2.15, f


REDUCE = ["--layers", "2", "--hidden", "48", "--vocab", "600", "--batch", "8", "--bptt", "4", "--threads", "1", "--tune", "off"]


def test_reduce_auto():
    """The faster of slices and copies, by what each says of itself: either one, as model and network have it."""
    seen = set()
    for ranks, *args in [(2,), (2, "--optimizer", "adam"), (4, "--network", "10G,10us"), (2, "--network", "100G,5ms"), (4, "--stages", "2", "--optimizer", "adam")]:
        f = forecast(ranks, *args, size=REDUCE)
        each = {way: forecast(ranks, "--reduce", way, *args, size=REDUCE) for way in ("slices", "copies")}
        for way in each:
            assert near(f["reduce_auto"][way], each[way]["seconds_per_step"]) and each[way]["reduce"] == way and each[way]["reduce_auto"] is None, (args, way)
        best = "copies" if f["reduce_auto"]["copies"] < f["reduce_auto"]["slices"] else "slices"
        assert f["reduce"] == best and near(f["seconds_per_step"], each[best]["seconds_per_step"]), (args, f)
        assert f["ranks"] == each[best]["ranks"], args
        seen.add(best)
    assert seen == {"slices", "copies"}, seen
    alone = forecast(2, "--stages", "2", size=REDUCE)  # each has its own layers: there is nothing to choose
    assert alone["reduce"] == "slices" and alone["reduce_auto"] is None


def test_reduce_auto_under_a_budget():
    """What fits only one way is done that way, whatever would be faster."""
    size = [*REDUCE, "--optimizer", "adam"]
    least = {way: int(re.search(r"the least that works is (\d+) bytes", ebb("plan", "lm", *size, "--ranks", 2, "--reduce", way, "--memory", "100K", expect=4).err).group(1))
             for way in ("slices", "copies")}
    assert least["slices"] < least["copies"], least
    f = forecast(2, "--network", "1M,1us", "--memory", least["copies"] - 1, size=size)
    assert f["reduce"] == "slices" and f["reduce_auto"]["copies"] is None and f["reduce_auto"]["slices"] > 0, f
    out = ebb("plan", "lm", *size, "--ranks", 2, "--memory", least["copies"] - 1).out
    assert "copies does not fit" in out and all(len(line) <= 80 for line in out.splitlines()), out
    refused(4, "plan", "lm", *size, "--ranks", "2", "--memory", least["slices"] - 1, says=["rank", "the least that works"])


def test_text():
    out = ebb("plan", "lm", *SMALL, "--ranks", "4", *WIRE).out
    assert all(len(line) <= 80 for line in out.splitlines()), out
    f = forecast(4, *WIRE)
    reduce = f["reduce"]
    for text in [f"4 processes of 1 thread, 1 stage, 4 shards, reduce {reduce}, 1 Gbit/s, 50 us", "predicted", "words/s", "bubble", "speed-up", "largest rank", "advice", f"reduce auto   {reduce:>10}: slices 0."]:
        assert text in out, out
    rows = re.findall(r"^ +(\d) +(\d) +[0-9.]+ [KM]iB +([0-9.]+) ms +([0-9.]+) ms +(\d+) ", out, re.M)
    assert [int(row[0]) for row in rows] == [0, 1, 2, 3]
    for row, rank in zip(rows, f["ranks"]):
        assert int(row[4]) == rank["messages"] and abs(float(row[2]) - 1e3 * rank["busy_seconds"]) <= 0.006


def test_all_kinds():
    check(forecast(2, kind="nmt", size=["--hidden", "16", "--src-vocab", "50", "--tgt-vocab", "50", "--batch", "4", "--src-len", "5", "--tgt-len", "5", "--threads", "1"]), 2, 1)
    f = forecast(2, kind="cnn", size=["--net", "lenet", "--batch", "16", "--threads", "1"])
    check(f, 2, 1)
    assert f["images_per_second"] > 0


def test_refused():
    for bad in ["1G", "fast", "1G,50", "1X,50us", "0G,1us", "-1G,1us", "1G,1us,", ""]:
        refused(2, "plan", "lm", *SMALL, "--ranks", "2", "--network", bad, says="--network")
    refused(2, "plan", "lm", *SMALL, "--network", "1G,50us", says=["--network", "--ranks N"])
    refused(2, "plan", "lm", *SMALL, "--trace", "t", says=["--trace", "--ranks N"])
    refused(2, "plan", "lm", *SMALL, "--stages", "2", says=["--stages", "--ranks N"])
    refused(2, "plan", "lm", *SMALL, "--ranks", "65", says="--ranks")
    refused(2, "plan", "lm", *SMALL, "--ranks", "3", says="--shards 3 does not divide --batch 8")
    refused(2, "plan", "lm", *SMALL, "--ranks", "4", "--stages", "3", says="--stages 3 does not divide")
    refused(2, "plan", "lm", *SMALL, "--ranks", "64", "--stages", "64", says="layers to part")
    for other in "--curve", "--program", "--explain":
        refused(2, "plan", "lm", *SMALL, "--ranks", "2", other, says=other)
    refused(2, "bench", "lm", *SMALL, "--ranks", "2", says="--ranks")
    assert not os.path.exists("t")


def test_picture():
    ebb("plan", "lm", *SMALL, "--ranks", "4", "--stages", "4", "--svg", "r.svg", *WIRE)
    root = ET.parse("r.svg").getroot()
    words = ["".join(part.itertext()) for part in root.iter(SVG + "text")]
    assert root.tag == SVG + "svg" and "ms" in words
    assert [w for w in words if w.startswith("rank ")] == [f"rank {r}" for r in range(4)]
    for name in ["forward", "backward", "update", "waiting"]:
        assert any(w.startswith(name + " ") and w.endswith("%") for w in words), words
    f = forecast(4, "--stages", "4", *WIRE)
    busy = [round(100 * rank["busy_seconds"] / f["seconds_per_step"]) for rank in f["ranks"]]
    assert [int(w.split("%")[0]) for w in words if w.endswith("% busy")] == busy
    bars = [(float(b.get("x")), float(b.get("y")), float(b.get("width"))) for b in root.iter(SVG + "rect") if re.fullmatch("s[0-5]", b.get("class", ""))]
    for y in sorted({b[1] for b in bars})[:4]:  # rows without a gap, from the first to the last pixel
        row = sorted(b for b in bars if b[1] == y)
        assert all(abs(a[0] + a[2] - b[0]) <= 0.2 for a, b in zip(row, row[1:])), row
        assert abs(sum(b[2] for b in row) - 740) < 2, row


def replay(folder, ranks):
    """Seconds that SimGrid finds for the traces."""
    flags = ["network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0", "smpi/send-is-detached-thresh:0"]
    done = subprocess.run(["smpirun", "-np", str(ranks), "-hostfile", "hosts.txt", "-platform", "platform.xml", "-replay", "traces.txt",
                           *["--cfg=" + flag for flag in flags]], capture_output=True, text=True, cwd=folder, timeout=100)
    assert done.returncode == 0, done.stderr
    return float(re.search(r"Simulation time ([0-9.]+)", done.stdout + done.stderr).group(1))


def test_traces():
    """Each message that is sent is expected, each started one is waited for, work is the rank's; an
    engine that is not ours finds the same seconds."""
    for ranks, args in [(2, WIRE), (4, ["--network", "10G,20us"]), (4, ["--stages", "4", *WIRE]), (4, ["--stages", "2", *WIRE])]:
        f = forecast(ranks, *args, "--trace", "t")
        lines = [[line.split() for line in open(f"t/rank{r}.txt")] for r in range(ranks)]
        sent = sorted((r, int(l[2]), int(l[3]), int(l[4])) for r in range(ranks) for l in lines[r] if l[1] == "isend")
        expected = sorted((int(l[2]), r, int(l[3]), int(l[4])) for r in range(ranks) for l in lines[r] if l[1] == "irecv")
        waits = sorted((int(l[2]), int(l[3]), int(l[4])) for r in range(ranks) for l in lines[r] if l[1] == "wait")
        assert sent and sent == expected
        assert waits == sorted(2 * [message[:3] for message in sent])
        for r, rank in enumerate(f["ranks"]):
            assert lines[r][0] == [str(r), "init"] and lines[r][-1] == [str(r), "finalize"]
            work = sum(float(l[2]) for l in lines[r] if l[1] == "compute") / 1e9
            assert near(work, rank["busy_seconds"], 1e-3)
            assert sum(message[3] for message in sent if message[0] == r) == rank["sent_bytes"]
        assert len(ET.parse("t/platform.xml").getroot().findall(".//host")) == ranks
        if shutil.which("smpirun"):
            assert near(replay("t", ranks), f["seconds_per_step"], 0.002), args


def test_as_under_mpirun():
    """Bytes and messages are exactly those of the real run."""
    if not OPEN_MPI or SANITIZED or not os.path.exists(os.path.dirname(EBB) + "/ebb_mpi.so"):
        print("SKIPPED: no Open MPI here", flush=True)
        return
    for ranks, args in [(2, []), (4, ["--reduce", "central"]), (2, ["--stages", "2"]), (4, ["--stages", "2", "--optimizer", "adam"])]:
        done = mpirun(ranks, EBB, "bench", "lm", *SMALL, *args, "--steps", "1", "--json")
        assert done.returncode == 0, done.stderr
        real, said = Result(0, done.stdout, "").json(), forecast(ranks, *args)
        for key in "planned_peak_bytes", "messages", "sent_bytes":
            assert [r[key] for r in real["ranks"]] == [r[key] for r in said["ranks"]], (args, key)


main(globals())
