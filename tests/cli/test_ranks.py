"""Runs and benches that several processes share, as mpirun starts them: the same weights as one
process alone, whatever the number of processes, stages and mode; runs that go on with other numbers,
after a signal or a lost process too; settings that cannot be. Skipped where MPI is not, and under
TSan, to which MPI's own threads look like races. EBB_RANKS_KILLS=30: so many kills."""
import json
import os
import random
import re
import signal
import shutil
import subprocess
import time

from ebbtest import EBB, OPEN_MPI, digest, ebb, idx, main_with_mpi, metrics, mpi_environment, mpirun, mpirun_command, pairs, text, wait_for_step, write

KILLS = int(os.environ.get("EBB_RANKS_KILLS", "30" if os.environ.get("EBB_LONG") else "2"))


def launch(count, *args):
    return subprocess.Popen(mpirun_command(count, EBB, *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=mpi_environment(),
                            stdin=subprocess.DEVNULL)


def mpi(count, *args, expect=0):
    done = mpirun(count, EBB, *args)
    assert done.returncode == expect, f"{count} x {args}: exit {done.returncode}, not {expect}\n{done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def refused(code, count, *args, says=()):
    """One line with these texts; nothing is written but the lock of a folder. (The others have a second before they speak for themselves.)"""
    before = sorted(os.listdir())
    out, err = mpi(count, *args, expect=code)
    lines = [line for line in err.splitlines() if line.startswith("ebb: ")]
    assert lines and out == "" and all(line.startswith("ebb: rank ") for line in lines[1:]), f"{args}: {err!r} {out[:200]!r}"
    assert all(part in lines[0] for part in says), f"{args}: not {says} in {lines[0]!r}"
    assert not os.path.exists("run") or os.listdir("run") == ["lock"], os.listdir("run")
    shutil.rmtree("run", ignore_errors=True)
    assert sorted(os.listdir()) == before, os.listdir()


# ---- bench ----

def check_bench(args, *grids):
    """The weights of one process; every process takes what it planned, and nothing more later."""
    command = ["bench", *args, "--threads", "1", "--steps", "3", "--json"]
    alone = ebb(*command).json()
    for count, *more in grids:
        shared = json.loads(mpi(count, *command, *more)[0])
        assert shared["weights_hash"] == alone["weights_hash"] and shared["loss"] == alone["loss"], (args, count, more)
        assert [rank["rank"] for rank in shared["ranks"]] == list(range(count))
        for rank in shared["ranks"]:
            assert rank["planned_peak_bytes"] == rank["measured_peak_bytes"] > 0, (args, count, more, rank)
            assert rank["allocations_after_first_step"] == 0 and rank["messages"] > 0, (args, count, more, rank)


def test_bench_lm():
    sizes = ["lm", "--hidden", "12", "--batch", "12", "--bptt", "4", "--vocab", "50"]
    check_bench([*sizes, "--layers", "3", "--shards", "4"], (2,), (3, "--reduce", "copies"), (4, "--stages", "2", "--reduce", "central"),
                (3, "--stages", "3"), (2, "--stages", "2", "--disable", "split"))
    check_bench([*sizes, "--layers", "3", "--shards", "1", "--optimizer", "adam", "--clip", "0.1"], (2, "--stages", "2"),
                (4, "--stages", "4", "--chunk-steps", "1"), (2, "--stages", "2", "--disable", "split"))
    check_bench([*sizes, "--layers", "2", "--shards", "3", "--cell", "gru", "--optimizer", "adam"], (2, "--reduce", "central"), (6, "--stages", "2"))
    check_bench([*sizes, "--layers", "2", "--shards", "2", "--tie", "--optimizer", "adamw"], (2, "--stages", "2"), (4, "--stages", "2", "--reduce", "copies"))


def test_reduce_auto():
    """What is chosen is what the forecast chooses, said, and changes nothing but that; a budget may leave one way only."""
    sizes = ["lm", "--hidden", "48", "--layers", "2", "--batch", "8", "--bptt", "4", "--vocab", "600", "--shards", "2", "--optimizer", "adam", "--threads", "1"]
    command = ["bench", *sizes, "--steps", "2", "--json"]
    alone = ebb(*command).json()
    planned = {way: ebb("plan", *sizes, "--ranks", "2", "--reduce", way, "--json").json() for way in ("slices", "copies")}
    chosen = set()
    for more in [], ["--virtual", "--network", "100G,5ms"], ["--memory", planned["slices"]["largest_rank_bytes"]]:
        shared = json.loads(mpi(2, *command, *more)[0])
        forecast = ebb("plan", *sizes, "--ranks", "2", *[word for word in more if word != "--virtual"], "--json").json()
        assert shared["reduce"] == forecast["reduce"] and shared["weights_hash"] == alone["weights_hash"], (more, shared)
        for rank, own in zip(shared["ranks"], forecast["ranks"]):
            assert rank["planned_peak_bytes"] == rank["measured_peak_bytes"] == own["planned_peak_bytes"], (more, rank, own)
        chosen.add(shared["reduce"])
    assert chosen == {"slices", "copies"}, chosen


def test_output_layer_in_parts():
    """Every stage has a part of the vocabulary, and so fewer bytes than the one that had it all; --disable split leaves it whole."""
    command = ["bench", "lm", "--hidden", "64", "--embed", "4", "--layers", "2", "--batch", "4", "--bptt", "4", "--vocab", "4000", "--optimizer",
               "adam", "--threads", "1", "--steps", "2", "--json"]
    most = [max(rank["planned_peak_bytes"] for rank in json.loads(mpi(2, *command, "--stages", "2", *more)[0])["ranks"])
            for more in ([], ["--disable", "split"])]
    assert most[0] < most[1], most


def test_bench_large_table():
    """Rows of one parameter belong to several processes."""
    check_bench(["lm", "--hidden", "8", "--layers", "1", "--batch", "4", "--bptt", "3", "--vocab", "5000", "--shards", "4", "--optimizer", "adam"],
                (4,), (3, "--reduce", "copies"))


def test_bench_nmt():
    sizes = ["nmt", "--hidden", "8", "--batch", "6", "--vocab", "40", "--shards", "3", "--feed", "--src-len", "6", "--tgt-len", "5"]
    check_bench(sizes, (3,), (2, "--stages", "2", "--reduce", "central"))
    check_bench([*sizes, "--smoothing", "0.1"], (2, "--stages", "2"), (3, "--stages", "3", "--disable", "split"))
    check_bench([*sizes, "--attention", "dot", "--tie"], (3, "--stages", "3"), (4, "--stages", "2", "--reduce", "copies"))


def test_bench_cnn():
    check_bench(["cnn", "--net", "lenet", "--batch", "16", "--shards", "4"], (2,), (4, "--stages", "2", "--reduce", "central"))
    check_bench(["cnn", "--net", "resnet20_cifar", "--batch", "8", "--shards", "2"], (2, "--stages", "2"), (4, "--stages", "2", "--reduce", "copies"))


def test_sparse_maps():
    """What does not fit the heaps of one process makes all do the step once more; the same bits, in as few bytes as there are plans for."""
    write("net.txt", "input 1 24 24\n" + 4 * "conv 8 3 pad 1\nrelu\n" + "gap\nflatten\nfc 3\n")
    bench = ["bench", "cnn", "--net", "net.txt", "--batch", "32", "--shards", "2", "--steps", "3", "--threads", "1", "--disable", "recompute,chunk", "--json"]
    whole = ebb(*bench, "--density", "none").json()
    for count, density, full, *more in [(2, "0.1", True), (2, "0.9", False), (4, "0.1", True, "--stages", "2", "--reduce", "copies")]:
        command = [*bench, "--density", density, *more]
        least = re.search(r"the least that works is (\d+) bytes", mpi(count, *command, "--memory", "100k", expect=4)[1])
        shared = json.loads(mpi(count, *command, "--memory", least.group(1))[0])
        assert shared["weights_hash"] == whole["weights_hash"] and shared["loss"] == whole["loss"], (count, density, more)
        assert (shared["fallback_steps"] > 0) == full, (count, density, more, shared)
        assert shared["sparse_reserved_bytes"] > 0 or more, shared  # of the first process, which has none where it has few layers
        for rank in shared["ranks"]:
            assert rank["planned_peak_bytes"] == rank["measured_peak_bytes"] > 0 and rank["allocations_after_first_step"] == 0, rank


def test_virtual():
    """More processes than cores, by a clock of their own: a slow network takes the time that its messages need, and changes nothing else."""
    command = ["bench", "lm", "--hidden", "12", "--batch", "4", "--bptt", "4", "--vocab", "50", "--layers", "2", "--shards", "4", "--threads", "1",
               "--steps", "3", "--virtual", "--json"]
    for more in [], ["--stages", "2"]:
        fast, slow = (json.loads(mpi(4, *command, *more, *network)[0]) for network in ([], ["--network", "1M,50us"]))
        assert fast["weights_hash"] == slow["weights_hash"] and 0 < fast["virtual_seconds_per_step"] < slow["virtual_seconds_per_step"]
        most = max(rank["sent_bytes"] for rank in slow["ranks"])
        assert slow["virtual_seconds_per_step"] > most * 8 / 1e6, (most, slow["virtual_seconds_per_step"])
        for result in fast, slow:
            step = max(rank["busy_seconds"] + rank["waiting_seconds"] for rank in result["ranks"])
            assert abs(step - result["virtual_seconds_per_step"]) < 1e-9 and 0 < result["bubble_share"] <= result["exposed_share"] < 1
    refused(2, 2, "bench", "lm", "--network", "1G,50us", says=["--virtual"])
    refused(2, 2, "bench", "lm", "--virtual", "--network", "quick", says=["--network", "1G,50us"])


# ---- train ----

def files(folder):
    """What a run has learnt and goes on with; of older states there may be others."""
    newest = max(int(name[5:-5]) for name in os.listdir(folder) if name.startswith("ckpt-") and name.endswith(".json"))
    names = ["last.safetensors", "best.safetensors", f"ckpt-{newest}.safetensors", f"ckpt-{newest}.state.safetensors"]
    return {name: digest(folder + "/" + name) for name in names if os.path.exists(folder + "/" + name)}


def check_same(folder, whole="whole"):
    assert files(folder) == files(whole), f"{folder} is not as {whole}"
    assert metrics(folder) == metrics(whole), folder


LM = ["train", "lm", "--layers", "2", "--hidden", "8", "--batch", "8", "--bptt", "5", "--threads", "1", "--shards", "4", "--train", "t", "--valid", "v",
      "--dropout", "0.2", "--optimizer", "adam", "--save-every", "9"]


def texts():
    text("t", 200)
    text("v", 30, seed=2)


def test_train_lm():
    texts()
    for name, more in (("windows", []), ("sentences", ["--by-sentence", "--clip", "0.5"])):
        command = [*LM, *more, "--steps", "50"]
        ebb(*command, "--out", name)
        mpi(3, *command, "--out", name + "3", "--reduce", "copies")
        check_same(name + "3", name)
        out, err = mpi(4, *command, "--out", name + "4", "--stages", "2", "--json", "--verbose")
        check_same(name + "4", name)
        assert json.loads(out)["reduce"] in ("slices", "copies") and f"reduce {json.loads(out)['reduce']}" in err, (out, err)


def test_train_by_a_virtual_clock():
    """Words a second are those of the clock: none are faster than a slow network lets them; nothing else is another."""
    texts()
    command = [*LM, "--steps", "12", "--log-every", "4"]
    ebb(*command, "--out", "whole")
    mpi(2, *command, "--out", "slow", "--virtual", "--network", "1G,200ms")
    check_same("slow", "whole")
    with open("slow/metrics.jsonl", encoding="utf8") as file:
        rates = [line["words_per_second"] for line in map(json.loads, file) if line.get("words_per_second")]
    assert rates and all(0 < rate < 8 * 5 / 0.2 for rate in rates), rates
    refused(2, 2, *command, "--out", "run", "--network", "1G,50us", says=["--virtual"])


def test_train_nmt():
    pairs("t", 80)
    pairs("v", 11, seed=2)
    command = ["train", "nmt", "--hidden", "8", "--batch", "4", "--shards", "2", "--threads", "1", "--feed", "--dropout", "0.2", "--train", "t.src",
               "t.tgt", "--valid", "v.src", "v.tgt", "--valid-metric", "bleu", "--samples", "3", "--epochs", "2"]
    scores = lambda folder: [line["valid_bleu"] for line in metrics(folder) if "valid_bleu" in line]
    shown = lambda said: [line for line in said.splitlines() if line.split()[:1] in (["source"], ["reference"], ["translation"])]
    alone = ebb(*command, "--out", "whole")
    assert len(scores("whole")) == 2 and len(shown(alone.err)) == 2 * 3 * 3
    for count, more in [(2, ["--reduce", "central"]),  # sentences are dealt out, texts come back in order
                        (4, ["--stages", "2"])]:  # the first process translates with weights that others have
        folder = f"run{count}"
        out, err = mpi(count, *command, "--out", folder, *more)
        check_same(folder)
        assert scores(folder) == scores("whole"), (scores(folder), scores("whole"))
        assert shown(err) == shown(alone.err), (err, alone.err)


NET = "input 1 8 8\nconv 6 3 pad 1 nobias\nbn\nrelu\nmaxpool 2\nconv 8 3 pad 1\nrelu\ngap\nflatten\ndropout 0.1\nfc 3\n"


def test_train_cnn():
    write("net.txt", NET)
    idx("images", "train", 96, 1)
    idx("images", "t10k", 24, 2)
    command = ["train", "cnn", "--net", "net.txt", "--batch", "8", "--shards", "4", "--threads", "1", "--lr", "0.1", "--momentum", "0.9", "--train",
               "images", "--epochs", "2"]
    ebb(*command, "--out", "whole")
    mpi(4, *command, "--out", "four", "--reduce", "copies")
    check_same("four")
    mpi(4, *command, "--out", "grid", "--stages", "2")
    check_same("grid")


def test_others_have_no_files():
    """Texts, images and the run of --init lie where the first process is; what follows from them the others hear from it."""
    texts()
    idx("images", "train", 24, 1, side=28)
    idx("images", "t10k", 8, 2, side=28)
    os.makedirs("away")
    ebb(*LM, "--steps", "9", "--hidden", "12", "--tie", "--out", "first")
    on = [*LM[:2], *LM[6:], "--init", "first", "--steps", "18"]  # whose layers and sizes are those of the first
    images = ["train", "cnn", "--net", "lenet", "--batch", "8", "--shards", "2", "--threads", "1", "--train", "images", "--steps", "4"]
    for command in on, images:
        ebb(*command, "--out", f"{command[1]}-whole")
        for more in [], ["--stages", "2"]:
            shutil.rmtree("run", ignore_errors=True)
            line = [EBB, *command, *more, "--out", "run"]
            done = mpirun(1, *line, ":", "-np", "1", "-wdir", "away", *line)
            assert done.returncode == 0 and os.listdir("away") == [], done
            check_same("run", f"{command[1]}-whole")


# ---- averages of the weights ----

GRIDS = [(2, []), (4, ["--stages", "2"]), (3, ["--reduce", "copies"]), (2, ["--stages", "2", "--reduce", "central"]), (1, []),
         (2, ["--stages", "2", "--disable", "split"])]


def test_averages():
    texts()
    command = [*LM, "--average", "0.8", "--valid-every", "11"]
    ebb(*command, "--steps", "40", "--out", "whole")
    for count, more in GRIDS[:4]:
        folder = f"mean{count}{''.join(more)}"
        out, _ = mpi(count, *command, "--steps", "40", "--out", folder, *more, "--json")
        check_same(folder)
        assert all(rank["measured_peak_bytes"] == rank["planned_peak_bytes"] for rank in json.loads(out).get("ranks", [])), out
    for i, (count, more) in enumerate(GRIDS):
        mpi(count, *command, *more, "--steps", str(7 * (i + 1)), "--out", "run")
    ebb(*command, "--steps", str(7 * len(GRIDS)), "--out", "short")
    assert files("run") == files("short")
    # Of a matrix whose rows are shared out, with their optimiser's state.
    large = [*command, "--layers", "1", "--hidden", "64", "--embed", "8", "--steps", "8"]
    ebb(*large, "--out", "large")
    mpi(2, *large, "--out", "large2", "--reduce", "slices")
    check_same("large2", "large")
    # BLEU of a validation is that of the averages, which the first process gets from the others.
    pairs("p", 40)
    command = ["train", "nmt", "--hidden", "8", "--batch", "4", "--shards", "2", "--threads", "1", "--train", "p.src", "p.tgt", "--valid", "p.src", "p.tgt",
               "--valid-metric", "bleu", "--epochs", "2", "--average", "0.9", "--tie", "--lr", "0.02", "--optimizer", "adam"]
    ebb(*command, "--out", "alone")
    for count, more in (2, []), (4, ["--stages", "2"]):
        mpi(count, *command, "--out", f"nmt{count}", *more)
        check_same(f"nmt{count}", "alone")


# ---- going on ----


def test_goes_on_with_other_numbers():
    texts()
    ebb(*LM, "--steps", "60", "--out", "whole")
    for i, (count, more) in enumerate(GRIDS):
        mpi(count, *LM, *more, "--steps", str(10 * (i + 1)), "--out", "run")
    assert files("run") == files("whole")
    before = files("run")
    assert "finished" in mpi(3, *LM, "--steps", "60", "--out", "run")[1] and files("run") == before
    assert json.loads(mpi(2, *LM, "--steps", "60", "--out", "run", "--json")[0])["already_done"] and files("run") == before
    ebb(*LM, "--steps", "72", "--out", "whole")
    ebb(*LM, "--steps", "72", "--out", "run")  # what several began one alone ends
    assert files("run") == files("whole")


def children(process):
    """The processes of mpirun, in the order of ranks."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                pairs_of = dict(part.split(b"=", 1) for part in file.read().split(b"\0") if b"=" in part)
            with open(f"/proc/{name}/stat", encoding="utf8") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError):
            continue
        if name.isdigit() and parent == process.pid and b"OMPI_COMM_WORLD_RANK" in pairs_of:
            found.append((int(pairs_of[b"OMPI_COMM_WORLD_RANK"]), int(name)))
    return [pid for _, pid in sorted(found)]


LONG = [*LM, "--steps", "400", "--hidden", "32"]


def test_stops_and_goes_on():
    if not OPEN_MPI:
        return
    texts()
    ebb(*LONG, "--out", "whole")
    for how in (signal.SIGTERM, signal.SIGUSR2):
        process = launch(2, *LONG, "--out", "run", "--reduce", "copies")
        wait_for_step(process, "run", 18)
        process.send_signal(how)
        err = process.communicate(timeout=100)[1]
        assert process.returncode != 0 or "done: " in err, (how, process.returncode, err)
    mpi(4, *LONG, "--out", "run", "--stages", "2")
    assert files("run")["last.safetensors"] == files("whole")["last.safetensors"]


def test_killed_rank():
    """A process is killed at any moment: all end soon, with code 9 or the signal's, and others go on."""
    if not OPEN_MPI:
        return
    texts()
    dice = random.Random(1)
    ebb(*LONG, "--out", "whole")
    for _ in range(KILLS):
        shutil.rmtree("run", ignore_errors=True)
        count, more = dice.choice(GRIDS[:4])
        process = launch(count, *LONG, *more, "--out", "run", "--lost-after", "5")
        wait_for_step(process, "run", 9 * dice.randrange(1, 12))
        time.sleep(dice.random() * 0.05)
        pids = children(process)
        if pids:
            try:
                os.kill(dice.choice(pids), signal.SIGKILL)
            except ProcessLookupError:  # it has just ended
                pass
        err = process.communicate(timeout=100)[1]
        assert process.returncode in (0, 9, 137), (process.returncode, err)
        count, more = dice.choice(GRIDS)
        mpi(count, *LONG, *more, "--out", "run")
        assert files("run")["last.safetensors"] == files("whole")["last.safetensors"]


# ---- what cannot be ----

def test_refused():
    texts()
    bench = ["bench", "lm", "--hidden", "8", "--layers", "2", "--batch", "12", "--bptt", "3", "--vocab", "30", "--threads", "1"]
    refused(2, 2, *bench, "--shards", "5", says=["shards"])
    refused(2, 4, *bench, "--shards", "3", says=["--shards 4"])
    refused(2, 8, *bench, "--shards", "4", "--stages", "8", says=["--stages 8"])
    refused(2, 3, *bench, "--shards", "3", "--stages", "2", says=["--stages 2"])
    refused(2, 3, *LM, "--out", "run", "--stages", "2", says=["--stages 2"])
    refused(2, 2, *LM, "--out", "run", "--shards", "3", says=["shards"])
    refused(2, 2, "eval", "lm", "--weights", "none", says=["mpirun started 2 processes", "train and bench"])
    refused(3, 2, *[word if word != "t" else "gone" for word in LM], "--out", "run", says=["gone"])


def test_other_settings_are_refused():
    """Whatever decides who does what, and how often, must be the same in all processes: none waits for what another never does."""
    bench = ["bench", "lm", "--hidden", "8", "--layers", "2", "--batch", "4", "--bptt", "3", "--vocab", "20", "--shards", "2", "--threads", "1"]
    says = ["rank 1 (", "has other settings than rank 0"]
    for more in (["--steps", "3"], ["--reduce", "slices"], ["--stages", "2"], ["--chunk-steps", "1"], ["--disable", "simplify"], ["--only", "messages"],
                 ["--virtual"], ["--profile"], ["--dropout", "0.5"]):
        refused(2, 1, *bench, ":", "-np", "1", EBB, *bench, *more, says=says)
    refused(2, 1, *bench, ":", "-np", "1", EBB, "train", *bench[1:], says=says)
    # A net's file is read by all, and must say the same.
    for folder, rate in ("a", "0.1"), ("b", "0.2"):
        os.makedirs(folder)
        write(f"{folder}/net.txt", NET.replace("dropout 0.1", f"dropout {rate}"))
    cnn = [EBB, "bench", "cnn", "--net", "net.txt", "--batch", "4", "--shards", "2", "--threads", "1"]
    done = mpirun(1, "-wdir", "a", *cnn, ":", "-np", "1", "-wdir", "b", *cnn)
    assert done.returncode == 2 and "has other settings than rank 0" in done.stderr, done
    assert mpirun(1, "-wdir", "a", *cnn, ":", "-np", "1", "-wdir", "a", *cnn).returncode == 0
    # What is each one's own may differ.
    for more in ["--threads", "2"], ["--memory", "600M"], ["--lost-after", "9"], ["--quiet"]:
        mpi(1, *bench, "--steps", "1", ":", "-np", "1", EBB, *bench, "--steps", "1", *more)


if __name__ == "__main__":
    main_with_mpi(globals())
