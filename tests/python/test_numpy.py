"""The Python package with NumPy (and PyTorch, where it is installed): arrays without copies, the examples."""
import os
import subprocess
import sys

from pytest_ebb import ROOT, need_library, need_numpy

need_library()
need_numpy()
import numpy as np  # noqa: E402

import ebb  # noqa: E402
from ebbtest import main  # noqa: E402


def program():
    g = ebb.Graph()
    x = g.input("x", (4, 3))
    g.output("y", x @ g.param("w", (2, 3)).T)
    return ebb.compile(g, optimizer=None, threads=1)


def raises(call, *says):
    try:
        call()
    except ebb.UsageError as why:
        assert all(text in str(why) for text in says), why
        return
    raise AssertionError("no UsageError")


def test_arrays_are_not_copied():
    p = program()
    view = p.view("w")
    assert isinstance(view, np.ndarray) and view.flags.writeable and view.dtype == np.float32 and view.shape == (2, 3)
    assert view.ctypes.data == p.view("w").ctypes.data and not p.view("y").flags.writeable
    w, x = np.arange(6, dtype="float32").reshape(2, 3), np.ones((4, 3), "float32")
    view[:] = w
    p.step(x=x)
    assert np.array_equal(p["w"], w) and np.array_equal(p["y"], x @ w.T) and np.array_equal(p.view("y"), x @ w.T)
    del p
    assert view.sum() == 15  # it keeps the program's memory


def test_wrong_arrays_are_refused():
    p = program()
    raises(lambda: p.set("x", np.ones((4, 3))), "float64", "float32 [4, 3]")
    raises(lambda: p.set("x", np.ones((3, 4), "float32").T), "not contiguous")
    raises(lambda: p.set("x", np.ones((4, 6), "float32")[:, ::2]), "not contiguous")
    raises(lambda: p.set("x", np.ones((4, 4), "float32")), "shape [4, 4]")
    raises(lambda: p.set("x", np.ones((4, 3), "int32")), "int32")
    raises(lambda: p.set("x", np.ones((4, 3), ">f4")), "float32 [4, 3]")
    raises(lambda: p.set("x", np.ones((4, 3), "float16")), "float16")
    frozen = np.ones((4, 3), "float32")
    frozen.flags.writeable = False
    p["x"] = frozen
    assert np.array_equal(p["x"], frozen)
    assert isinstance(p._graph.input("z", np.ones((4, 3)).shape), ebb.Value)


def example(name):
    done = subprocess.run([sys.executable, os.path.join(ROOT, "python/examples", name)], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def test_examples():
    losses = [float(line.split()[-1]) for line in example("regression.py").splitlines() if "loss" in line]
    assert losses[-1] < losses[0] / 10
    assert int(example("tagger.py").splitlines()[-1].split()[0]) > 350
    base, tuned = [[float(word) for word in line.replace(",", " ").split() if "." in word] for line in example("finetune.py").splitlines()[:2]]
    assert base[0] < base[1] and tuned[1] < tuned[0] and tuned[1] < base[1]
    said = example("beside_torch.py")
    print("SKIPPED beside_torch.py: no PyTorch" if "skipped" in said else said)


main(globals())
