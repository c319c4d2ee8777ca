"""Ranks that are stopped, killed or fail, under real mpirun: all processes end, with the right code
and one line, which names the rank to blame; the same command goes on from the last checkpoint. And
the signals that mpirun hands on. With EBB_LONG=1 (make test-ranks) many more of the same. Skipped
where MPI is not, and under TSan, to which MPI's own threads look like races."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

from ebbtest import EBB, SANITIZED, digest, ebb, main_with_mpi, mpi_environment, text, wait_for_step

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
from two_hosts import TwoHosts, missing  # noqa: E402

LONG = bool(os.environ.get("EBB_LONG"))
LOST_AFTER = 1
HANG = 120  # seconds that nothing takes
MODEL = ["--hidden", "32", "--layers", "2", "--batch", "8", "--bptt", "8", "--shards", "4", "--threads", "1"]
BENCH = ["bench", "lm", *MODEL, "--vocab", "100", "--steps", "1000000"]
TRAIN = ["train", "lm", *MODEL, "--train", "train.txt", "--out", "run", "--steps", "1000000", "--save-every", "20", "--quiet"]
PARTS = {"data parallel": [], "2 x 2": ["--stages", "2"], "4 stages": ["--stages", "4"]}


def start(count, *args, mca=(), programs=None):
    """mpirun with so many ranks; programs: of the ranks, where they differ."""
    apps = programs or [[EBB, *args]] * count
    line = []
    for app in apps:
        line += [":"] if line else []
        line += ["-np", "1", *app]
    options = [word for pair in mca for word in ("--mca", *pair)]
    return subprocess.Popen(["mpirun", "--oversubscribe", "--bind-to", "none", *options, *line], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=mpi_environment())


def processes(mpirun):
    """Ranks and their processes."""
    with open(f"/proc/{mpirun.pid}/task/{mpirun.pid}/children", encoding="utf8") as file:
        found = {}
        for pid in map(int, file.read().split()):
            with open(f"/proc/{pid}/environ", encoding="utf8") as variables:
                rank = re.search(r"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", variables.read())
            if rank:
                found[int(rank.group(1))] = pid
        return found


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until_busy(mpirun, count, seconds=0.5):
    """All ranks have come and compute."""
    end = time.time() + HANG
    while time.time() < end and mpirun.poll() is None:
        found = processes(mpirun)
        if len(found) == count and all(cpu_seconds(pid) > seconds for pid in found.values()):
            return
        time.sleep(0.02)


def ended(mpirun):
    """Exit code and what ranks said, without what mpirun says; never a hang."""
    try:
        _, err = mpirun.communicate(timeout=HANG)
    except subprocess.TimeoutExpired:
        mpirun.kill()
        raise
    return mpirun.returncode, [line for line in err.splitlines() if line.startswith("ebb: ")]


def hurt(mpirun, rank, number):
    """What follows when the rank gets the signal: code, lines, seconds, its process."""
    pid = processes(mpirun)[rank]
    begin = time.time()
    os.kill(pid, number)
    code, lines = ended(mpirun)
    return code, lines, time.time() - begin, pid


def check_stopped(what, rank, code, lines, seconds, pid):
    assert code == 9, f"{what}: exit {code}: {lines}"
    assert len(lines) == 1, f"{what}: {lines}"
    assert re.match(rf"ebb: rank {rank} \(pid {pid} on \S+\) does not answer: lost (at step \d+|before)", lines[0]), f"{what}: {lines}"
    assert not LONG or SANITIZED or seconds < LOST_AFTER + 5, f"{what}: {seconds}"


def stop_bench(parts, rank):
    mpirun = start(4, *BENCH, *PARTS[parts], "--lost-after", str(LOST_AFTER))
    until_busy(mpirun, 4)
    found = hurt(mpirun, rank, signal.SIGSTOP)
    check_stopped(f"bench, {parts}, rank {rank}", rank, *found)
    return found[2]


def train(count, *args, mca=()):
    return start(count, *TRAIN, "--lost-after", str(LOST_AFTER), *args, mca=mca)


def saved(folder="run"):
    """Steps of the checkpoints, and the bytes of the newest."""
    steps = [int(name[5:-5]) for name in os.listdir(folder) if name.startswith("ckpt-") and name.endswith(".json")]
    return max(steps), digest(f"{folder}/last.safetensors")


def whole_files(folder="run"):
    """Nothing was left half done: the folder has only what a run leaves."""
    assert not [name for name in os.listdir(folder) if name.endswith(".tmp")], os.listdir(folder)


def stop_train(parts, rank):
    shutil.rmtree("run", ignore_errors=True)
    mpirun = train(4, *PARTS[parts])
    wait_for_step(mpirun, "run", 40)
    found = hurt(mpirun, rank, signal.SIGSTOP)
    check_stopped(f"train, {parts}, rank {rank}", rank, *found)
    step = re.search(r"lost at step (\d+); last checkpoint: step (\d+): the same command goes on from there", found[1][0])
    assert step and int(step.group(2)) < int(step.group(1)), found[1]
    # Nothing is saved after that. Of the first rank's newest checkpoint others hear with the next step.
    newest = saved()[0]
    assert int(step.group(2)) in ((newest, newest - 20) if rank == 0 else (newest,)), f"{found[1]}, not {newest}"
    return found[2]


def test_stopped_rank_is_named():
    """Whichever it is, and not one that waits for it; the others end by themselves."""
    text("train.txt")
    seconds = []
    if not LONG:
        stop_bench("data parallel", 0)
        stop_train("2 x 2", 2)
        return
    for turn in range(20):
        ways = list(PARTS)
        seconds += [stop_bench(ways[turn % 3], turn % 4), stop_train(ways[(turn + 1) % 3], turn % 4)]
    print(f"{len(seconds)} stops, all named; {min(seconds):.1f} to {max(seconds):.1f} s")


def test_killed_rank():
    """The run goes on from its last checkpoint, on another number of ranks, to the same bits."""
    dice, named, codes, slowest = random.Random(8), 0, [], 0
    text("train.txt")
    kills, last = (30, 3000) if LONG else (1, 200)
    counts = [4, 2, 1, 3]
    ebb(*TRAIN, "--out", "alone", "--steps", str(last))
    for turn in range(kills):
        before = saved()[0] if os.path.isdir("run") else 0
        mpirun = train(counts[turn % 2])
        wait_for_step(mpirun, "run", before + 20)
        time.sleep(dice.random() * 0.3)
        rank = dice.randrange(counts[turn % 2])
        code, lines, seconds, pid = hurt(mpirun, rank, signal.SIGKILL)
        codes.append(code)
        slowest = max(slowest, seconds)
        assert code in (9, 137), f"exit {code}: {lines}"
        assert len(lines) <= 1, lines
        assert all(f"rank {rank} (pid {pid} on " in line and "last checkpoint: step " in line for line in lines), lines
        assert not LONG or SANITIZED or seconds < 5, seconds
        named += len(lines)
    assert saved()[0] < last, f"killed only after step {last}: {saved()}"
    code, lines = ended(train(3, "--steps", str(last)))
    assert code == 0 and not lines, (code, lines)
    assert saved() == saved("alone")
    print(f"{kills} kills: exit {sorted(set(codes))}, {named} named by a rank too; at most {slowest:.1f} s")


def test_signals_to_mpirun():
    """SIGUSR2 saves and ends with 75, and so does SIGTERM where mpirun gives time; else nothing that
    was saved is lost."""
    text("train.txt")
    slow = [("odls_base_sigkill_timeout", "2")]
    for count, number, mca, codes in [(1, signal.SIGUSR2, [], {75}), (2, signal.SIGUSR2, [], {75}), (4, signal.SIGUSR2, [], {75}),
                                      (2, signal.SIGTERM, slow, None), (2, signal.SIGTERM, [], None), (2, signal.SIGINT, [], None)]:
        if not LONG and (count, number) not in ((4, signal.SIGUSR2), (2, signal.SIGTERM)):
            continue
        before = saved()[0] if os.path.isdir("run") else 0
        mpirun = train(count, mca=mca)
        wait_for_step(mpirun, "run", before + 20)
        mpirun.send_signal(number)
        code, lines = ended(mpirun)
        step = saved()[0]
        assert codes is None or code in codes, f"{count} ranks, {number!r}: exit {code}: {lines}"
        assert step >= before + 20, (step, before)
        said = [line for line in lines if f"stopped after step {step} of" in line]
        assert len(lines) <= 1 and (said or not (codes or mca)), f"{count} ranks, {number!r}: exit {code}, step {step}: {lines}"
        print(f"{count} ranks, {number.name} {mca}: exit {code}, {lines}")
    ebb(*TRAIN, "--steps", str(saved()[0] + 10))  # alone, and nothing is in the way
    whole_files()


def fails(code, says, *programs):
    got, lines = ended(start(len(programs), programs=programs))
    assert got == code and len(lines) == 1 and says in lines[0], f"exit {got}: {lines}"


def limited(limit, *args):
    return ["sh", "-c", f'ulimit {limit}; exec "$0" "$@"', EBB, *args]


def test_rank_that_fails():
    """Its code and its line, and nobody waits for it."""
    text("train.txt")
    few = [*TRAIN, "--steps", "50"]
    fails(7, "run", limited("-f 8", *few), [EBB, *few], [EBB, *few])  # the disk is full, for the first one alone
    other = [EBB, *few, "--memory", "100k"]
    fails(4, "rank 2 (", [EBB, *few, "--fresh"], [EBB, *few], other)
    if not SANITIZED:  # which needs more addresses than it has memory
        large = ["bench", "lm", "--hidden", "1000", "--vocab", "60000", "--shards", "2", "--threads", "1", "--steps", "1", "--memory", "3G"]
        fails(8, "rank 1 (pid ", [EBB, *large], limited("-v 700000", *large))


def test_host_that_is_cut_off():
    """The link between two hosts goes down: a rank of the other one is named."""
    if not LONG or missing() is not None:
        if LONG:
            print(f"SKIP: {missing()}")
        return
    with TwoHosts(".") as hosts, open("said", "w+", encoding="utf8") as said:
        mpirun = subprocess.Popen(hosts.command(2, EBB, *BENCH, "--lost-after", LOST_AFTER), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=said, env=mpi_environment())
        time.sleep(5)
        assert mpirun.poll() is None
        begin = time.time()
        hosts.cut()
        code = mpirun.wait(HANG)
        seconds = time.time() - begin
        said.seek(0)
        lines = [line for line in said.read().splitlines() if line.startswith("ebb: ")]
        assert code == 9 and len(lines) == 1, f"exit {code}: {lines}"
        assert re.match(rf"ebb: rank [23] \(pid \d+ on {hosts.names[1]}\) does not answer: lost at step ", lines[0]), lines
        print(f"cut off: {seconds:.1f} s: {lines[0]}")


if __name__ == "__main__":
    main_with_mpi(globals())
