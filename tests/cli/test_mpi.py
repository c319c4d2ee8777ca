"""Messages by MPI: ranks that real mpirun starts (comm_rank.c), which all end well, or all end with
the right code when one of them does not. Skipped where MPI is not, and under TSan, to which MPI's
own threads look like races."""
import os
import shutil
import subprocess
import time

from ebbtest import EBB, MPI_PLUGIN as PLUGIN, OPEN_MPI, SANITIZED, main_with_mpi, mpi_environment, mpirun

BUILD = os.path.dirname(EBB)
RANK = BUILD + "/tests/cli/comm_rank"
PIECE = "200000"  # as in comm_rank.c
COUNTS = [1, 2, 4]


def alone(job, **env):
    """Without mpirun."""
    return subprocess.run([RANK, job], capture_output=True, text=True, timeout=200, env=mpi_environment(**{"COMM_PLUGIN": PLUGIN, **env}),
                          stdin=subprocess.DEVNULL)


def ranks(count, job, program=RANK, expect=0, **env):
    done = mpirun(count, program, job, **{"COMM_PLUGIN": PLUGIN, **env})
    assert expect is None or done.returncode == expect, f"{count} x {job}: exit {done.returncode}, not {expect}\n{done.stdout}{done.stderr}"
    return done


def said(done):
    """What ranks said, without what mpirun says."""
    return [line for line in done.stderr.splitlines() if line.startswith("comm_rank: ")]


def test_ping_pong():
    for count in COUNTS:
        ranks(count, "ping_pong")
        ranks(count, "ping_pong", COMM_PIECE=PIECE)


def test_all_to_all():
    for count in COUNTS:
        ranks(count, "all_to_all")
        ranks(count, "all_to_all", COMM_PIECE=PIECE)


def test_spread():
    for count in COUNTS:
        lines = ranks(count, "spread").stdout.split("\n")[:-1]
        assert sorted(line.split(":")[0] for line in lines) == [f"rank {r} of {count}" for r in range(count)], lines
        assert len({line.split()[-1] for line in lines}) == count, lines  # as many processes


def test_wrong_sizes_are_named():
    for count in COUNTS[1:]:
        ranks(count, "wrong_sizes")
        done = ranks(count, "wrong_pieces", expect=1, COMM_PIECE=PIECE)
        assert said(done) and all("all as expected" in line for line in said(done)), done.stderr


def test_too_much_is_refused():
    ranks(2, "too_much", COMM_PIECE=PIECE)


def ended(count, job):
    """A job that ends by the death of its last rank, and the seconds from that to the end."""
    if os.path.exists("died"):
        os.remove("died")
    done = ranks(count, job, expect=None)
    return done, time.time() - os.stat("died").st_mtime


def test_killed_rank():
    """mpirun sees it and ends the others, or they miss it: never a hang."""
    for count in COUNTS[1:]:
        done, seconds = ended(count, "killed")
        assert done.returncode in (9, 137), f"exit {done.returncode}\n{done.stderr}"
        assert SANITIZED or seconds < 5, seconds


def test_stopped_rank():
    """Nobody but who waits for it can see that."""
    for count in COUNTS[1:]:
        done, seconds = ended(count, "stopped")
        assert done.returncode == 9, f"exit {done.returncode}\n{done.stderr}"
        assert said(done) and all(f"rank {count - 1} (pid " in line and "has not answered for 1 s" in line for line in said(done)), done.stderr
        assert SANITIZED or seconds < 6, seconds


def test_rank_gives_up():
    for count in COUNTS:
        ranks(count, "gives_up", expect=7)


def test_rank_without_memory():
    """Of four, one fails while all open: its code and its sentence, and nobody waits for it."""
    if OPEN_MPI:
        done = ranks(4, "poor", expect=8)
        assert len(said(done)) == 1 and "memory" in said(done)[0], done.stderr


def refused(done, *texts):
    lines = said(done)
    assert done.returncode == 2, f"exit {done.returncode}\n{done.stderr}"
    assert lines and all(text in line for line in lines for text in texts), lines
    return lines


def test_other_mpirun_is_refused():
    """Another MPI's mpirun says how many there are, but ours finds each of them alone."""
    assert len(refused(alone("spread", PMI_SIZE="3"), "mpirun started 3 processes", "sees 1")) == 1


def test_missing_plugin_is_refused():
    refused(ranks(2, "spread", expect=None, COMM_PLUGIN="/nowhere/ebb_mpi.so"), "/nowhere/ebb_mpi.so", "install libopenmpi-dev and openmpi-bin")
    refused(alone("spread", PMIX_RANK="0", COMM_PLUGIN="/nowhere/ebb_mpi.so"), "install libopenmpi-dev and openmpi-bin")


def test_plugin_is_found():
    """Beside the program, as built, and where it is installed; the folder may be moved."""
    for folder, place in (("one", "one"), ("two/bin", "two/lib/ebb")):
        os.makedirs(folder)
        os.makedirs(place, exist_ok=True)
        shutil.copy(RANK, folder)
        refused(ranks(1, "spread", program=f"{folder}/comm_rank", expect=None, COMM_PLUGIN=None), "ebb_mpi.so")
        shutil.copy(PLUGIN, place)
        ranks(2, "spread", program=f"{folder}/comm_rank", COMM_PLUGIN=None)


def test_command_is_refused():
    """Only train and bench can be shared: anything else would be done as often as there are processes. One of them says so."""
    done = mpirun(3, EBB, "eval", "lm", "--weights", "none")
    lines = [line for line in done.stderr.splitlines() if line.startswith("ebb: ")]
    assert done.returncode == 2 and len(lines) == 1, done.stderr
    assert "mpirun started 3 processes" in lines[0] and "train and bench" in lines[0], lines
    done = mpirun(1, EBB, "--version")
    assert done.returncode == 0, done.stderr


def test_alone_needs_no_mpi():
    done = alone("ping_pong", COMM_PLUGIN="/nowhere/ebb_mpi.so")
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    main_with_mpi(globals())
