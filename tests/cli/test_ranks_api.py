"""Programs of others (ebb.h, ranks_user.c) that several processes share: the same losses, norms, weights, states and results as one process
alone, and the planned bytes on each; files that go on elsewhere; what cannot be. Skipped where MPI is not, and under TSan."""
import json
import os
import sys

from ebbtest import EBB, SANITIZED, digest, main_with_mpi, mpirun, write

USER = os.path.dirname(EBB) + "/tests/cli/ranks_user"
SLICES, COPIES, CENTRAL, AUTO = range(4)


def run(count, *words, expect=0):
    done = mpirun(count, USER, *words)
    assert done.returncode == expect, f"{count} x {words}: exit {done.returncode}, not {expect}\n{done.stdout}{done.stderr}"
    return done


def told(count, *words):
    """What the leader tells, after a look at the bytes of all."""
    lines = [json.loads(line) for line in run(count, *words).stdout.splitlines()]
    processes = [line for line in lines if "process" in line]
    assert sorted(line["process"] for line in processes) == list(range(count)), processes
    assert all(line["of"] == count and line["planned"] == line["measured"] > 0 for line in processes), processes
    return [line for line in lines if "process" not in line]


def same(model, options, *ways):
    """Of 1 process and of all these ways: (count, options...)."""
    alone = told(1, model, "4", "alone.safetensors", *options)
    assert len({line["loss"] for line in alone if "loss" in line}) == 4 and any(line.get("role") == 1 for line in alone) == ("adam" in options), alone
    for count, *more in ways:
        shared = told(count, model, "4", "shared.safetensors", *options, *more)
        # Results, states and slots come in an order of their own.
        for line in alone:
            assert line in shared, (model, options, count, more, line)
        assert len(shared) == len(alone), (model, options, count, more)
        assert digest("alone.safetensors") == digest("shared.safetensors"), (model, options, count, more)


def test_layers_and_parts():
    """Layers as ebb_layer() names them, parameters made before all of them; parts of the batch; both."""
    same("lm", ["shards=4", "adam", "clip=0.5"], (2,), (4, f"reduce={COPIES}"), (2, "stages=2"), (4, "stages=2", f"reduce={CENTRAL}"))
    same("lm", ["shards=1"], (2, "stages=2"), (4, "stages=4"))
    same("lm", ["shards=3", "adam"], (3, f"reduce={SLICES}"), (3, "stages=3"))


def test_several_graphs():
    """The leader computes by itself where it has all weights, else with the others."""
    same("rows", ["shards=2", "adam"], (2,), (2, "stages=2"), (4, "stages=2"))
    same("rows", ["shards=4"], (4, f"reduce={CENTRAL}"), (3, f"reduce={COPIES}"))


def test_reduce_auto():
    """The leader's forecast decides, so that all do the same; a budget that only slices fit leaves these. The bits are the same."""
    same("lm", ["shards=4", "adam"], (2, f"reduce={AUTO}"), (4, f"reduce={AUTO}"), (4, "stages=2", f"reduce={AUTO}"), (2, "stages=2", f"reduce={AUTO}"))
    least = {}
    for way in SLICES, COPIES:
        done = run(2, "lm", "1", "no.safetensors", "adam", "memory=1", f"reduce={way}", expect=4)
        least[way] = max(int(part.split(" bytes")[0]) for part in done.stderr.split("the least that works is ")[1:])
    assert least[SLICES] < least[COPIES], least
    tight = [json.loads(line) for line in run(2, "lm", "1", "a.safetensors", "adam", f"memory={least[SLICES]}", f"reduce={AUTO}").stdout.splitlines()]
    assert [line["reduce"] for line in tight if "process" in line] == [SLICES, SLICES], tight


def test_shards_are_as_many_as_groups():
    shared = told(3, "lm", "2", "a.safetensors")
    assert [line for line in shared if "loss" in line] == [line for line in told(1, "lm", "2", "b.safetensors", "shards=3") if "loss" in line]
    assert digest("a.safetensors") == digest("b.safetensors")


def test_files_go_on_elsewhere():
    told(1, "lm", "6", "whole.safetensors", "shards=2", "adam")
    told(2, "lm", "3", "half.safetensors", "shards=2", "adam")
    told(4, "lm", "3", "rest.safetensors", "shards=2", "adam", "stages=2", "from=half.safetensors")
    assert digest("whole.safetensors") == digest("rest.safetensors")


def test_budgets():
    """Each process has one; the least is known to who asks, and is enough."""
    whole = told(2, "lm", "2", "a.safetensors", "stages=2", "adam")
    done = run(2, "lm", "2", "no.safetensors", "stages=2", "adam", "memory=20000", expect=4)
    assert "the least that works is" in done.stderr and not os.path.exists("no.safetensors"), done.stderr
    least = max(int(part.split(" bytes")[0]) for part in done.stderr.split("the least that works is ")[1:])
    small = told(2, "lm", "2", "b.safetensors", "stages=2", "adam", f"memory={least}")
    assert [line for line in whole if "loss" in line] == [line for line in small if "loss" in line]
    assert digest("a.safetensors") == digest("b.safetensors")


def refused(count, *words, expect, says):
    done = run(count, "lm", "2", "no.safetensors", *words, expect=expect)
    assert says in done.stderr and not os.path.exists("no.safetensors"), done.stderr


def test_what_cannot_be():
    refused(3, "stages=2", expect=2, says="stages 2 do not divide the number of processes, 3")
    refused(8, "stages=8", expect=2, says="the model has")
    refused(2, "odd=1", expect=2, says="process 1 has another version of ebb, other graphs or other options than process 0")
    refused(4, "shards=2", expect=2, says="4 processes share the parts of a batch, of which there are 2")
    refused(2, "reduce=4", expect=2, says="there is no reduce 4")


SCRIPT = """
import array, ebb
ranks = ebb.Ranks()
g = ebb.Graph()
x = g.input("x", (4, 3))
with g.layer("low"):
    h = ebb.tanh(x @ g.param("w", (5, 3)).T)
with g.layer("high"):
    y = h @ g.param("v", (2, 5)).T
program = ebb.compile(ebb.mean(y * y), ranks=ranks, stages=ranks.count, reduce="auto", optimizer="adam", threads=1)
assert program.plan.reduce == "slices"
if ranks.number == 0:
    xs = memoryview(array.array("f", [i / 7 for i in range(12)])).cast("B").cast("f", (4, 3))
    print([program.step(lr=0.1, x=xs) for i in range(3)], bytes(program["w"]).hex(), bytes(program["v"]).hex())
else:
    program.follow()
assert program.measured_bytes == program.plan.peak_bytes
"""


def test_python():
    library, package = os.path.dirname(EBB) + "/libebb.so", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
    if SANITIZED:
        return
    write("script.py", SCRIPT)
    found = {count: mpirun(count, sys.executable, "script.py", EBB_LIBRARY=library, PYTHONPATH=package) for count in (1, 2)}
    assert all(done.returncode == 0 for done in found.values()) and found[1].stdout == found[2].stdout != "", found


def test_lost():
    """One ends before it follows: who waits for it names it."""
    done = mpirun(2, USER, "lm", "2", "no.safetensors", "die=1")
    assert done.returncode in (7, 9) and not os.path.exists("no.safetensors"), done
    done = mpirun(4, USER, "lm", "2", "no.safetensors", "stages=2", "shards=2", "die=3")
    assert done.returncode in (7, 9) and not os.path.exists("no.safetensors"), done


if __name__ == "__main__":
    main_with_mpi(globals())
