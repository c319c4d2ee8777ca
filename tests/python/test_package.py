"""The Python package without NumPy: ctypes' view of ebb.h, expressions, programs, exceptions, threads, Ctrl-C, pictures."""
import array
import copy
import ctypes
import gc
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as tree

from pytest_ebb import ROOT, need_library

need_library()
import ebb  # noqa: E402
from ebb import _api, _arrays  # noqa: E402
from ebbtest import main, write  # noqa: E402


def floats(*values):
    return array.array("f", values)


def shaped(values, *shape):
    return memoryview(values).cast("B").cast(values.typecode, shape)


def raises(kind, call, *says):
    try:
        call()
    except ebb.EbbError as why:
        assert type(why) is kind, f"{type(why).__name__}: {why}"
        assert all(text in str(why) for text in says), str(why)
        assert "\n" not in str(why) and why.status == kind.status
        return why
    raise AssertionError(f"no {kind.__name__}")


# ---- what ctypes knows of ebb.h ----

def test_api_is_that_of_the_header():
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools/python_api.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_structs_have_the_sizes_of_the_compiler():
    if shutil.which("cc") is None:
        print("SKIPPED test_structs_have_the_sizes_of_the_compiler: no compiler")
        return
    structs = [name for name in dir(_api) if isinstance(getattr(_api, name), type) and issubclass(getattr(_api, name), ctypes.Structure) and name != "Structure"]
    assert len(structs) >= 8
    lines = []
    for name in structs:
        lines.append(f'printf("{name} %zu", sizeof({name}));')
        lines += [f'printf(" %zu", offsetof({name}, {field[0]}));' for field in getattr(_api, name)._fields_]
        lines.append('puts("");')
    write("sizes.c", "#include <ebb.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "}\n")
    subprocess.run(["cc", "-I", os.path.join(ROOT, "include"), "sizes.c", "-o", "sizes"], check=True)
    for line in subprocess.run(["./sizes"], capture_output=True, text=True, check=True).stdout.splitlines():
        name, size, *offsets = line.split()
        kind = getattr(_api, name)
        assert ctypes.sizeof(kind) == int(size) and [getattr(kind, field[0]).offset for field in kind._fields_] == list(map(int, offsets)), name


def test_import_needs_the_standard_library_alone():
    code = "import sys; before = set(sys.modules); import ebb; print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    names = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "ebb" in names and not {"numpy", "torch"} & set(names), names


def test_types_are_checked():
    own = [sys.executable, "-m", "mypy"]
    mypy = own if subprocess.run([*own, "--version"], capture_output=True).returncode == 0 else [shutil.which("mypy")]
    if mypy == [None]:
        print("SKIPPED test_types_are_checked: no mypy")
        return
    done = subprocess.run([*mypy, "--strict", "--cache-dir", "cache", os.path.join(ROOT, "python/ebb")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    examples = [os.path.join(ROOT, "python/examples", name) for name in ("regression.py", "finetune.py")]  # the others need NumPy, PyTorch
    done = subprocess.run([*mypy, "--cache-dir", "cache", *examples], capture_output=True, text=True, env={**os.environ, "MYPYPATH": os.path.join(ROOT, "python")})
    assert done.returncode == 0, done.stdout


# ---- expressions ----

def computed(build, **inputs):
    """What expressions give: build(graph, **values) is a dict of values by name."""
    g = ebb.Graph()
    values = {name: g.input(name, view.shape, "int32" if view.format == "i" else "float32") for name, view in inputs.items()}
    for name, value in build(g, **values).items():
        g.output(name, value)
    program = ebb.compile(g, optimizer=None, threads=1)
    program.step(**inputs)
    return {name: memoryview(program[name]).tolist() for name in program.names("output")}


def test_operators():
    x, y = shaped(floats(-1.5, 0.25, 2, 0.5, -0.75, 1), 2, 3), shaped(floats(1, 2, 3, 4, 5, 6), 2, 3)
    r = shaped(floats(1, -2, 3), 3)

    def build(g, x, y, r):
        assert x.shape == (2, 3) and (x @ y.T).shape == (2, 2) and x.T.shape == (3, 2) and r.dtype == "float32"
        return {"add": x + y, "sub": x - y, "mul": x * y, "scale": 3 * x, "half": x / 2, "neg": -x, "square": x ** 2, "row": x + r, "swap": r + x, "less": x - r,
                "nt": x @ y.T, "tn": x.T @ y, "plus": x.T @ y + r, "t": ebb.copy(x.T), "part": ebb.copy(x[1:, :2]), "last": ebb.copy(x[:, -1:]),
                "join": ebb.join([x, y], 1), "stack": ebb.stack([x, y]), "sum": ebb.sum(x), "mean": ebb.mean(x), "tanh": ebb.tanh(x), "sigmoid": ebb.sigmoid(x),
                "relu": ebb.relu(x), "softmax": ebb.softmax(x), "linear": ebb.linear(x, y)}

    got, X, Y, R = computed(build, x=x, y=y, r=r), x.tolist(), y.tolist(), r.tolist()
    each = lambda f: [[f(X[i][j], Y[i][j], R[j]) for j in range(3)] for i in range(2)]
    wanted = {"add": each(lambda a, b, c: a + b), "sub": each(lambda a, b, c: a - b), "mul": each(lambda a, b, c: a * b), "scale": each(lambda a, b, c: 3 * a),
              "half": each(lambda a, b, c: a / 2), "neg": each(lambda a, b, c: -a), "square": each(lambda a, b, c: a * a), "row": each(lambda a, b, c: a + c),
              "swap": each(lambda a, b, c: a + c), "less": each(lambda a, b, c: a - c), "tanh": each(lambda a, b, c: math.tanh(a)),
              "sigmoid": each(lambda a, b, c: 1 / (1 + math.exp(-a))), "relu": each(lambda a, b, c: max(a, 0)),
              "nt": [[sum(p * q for p, q in zip(X[i], Y[j])) for j in range(2)] for i in range(2)],
              "tn": [[sum(X[k][i] * Y[k][j] for k in range(2)) for j in range(3)] for i in range(3)], "t": [list(row) for row in zip(*X)],
              "part": [X[1][:2]], "last": [[X[0][2]], [X[1][2]]], "join": [X[0] + Y[0], X[1] + Y[1]], "stack": X + Y, "sum": [sum(map(sum, X))], "mean": [sum(map(sum, X)) / 6],
              "softmax": [[math.exp(a) / sum(map(math.exp, row)) for a in row] for row in X]}
    wanted["plus"] = [[wanted["tn"][i][j] + R[j] for j in range(3)] for i in range(3)]
    wanted["linear"] = wanted["nt"]
    assert set(wanted) == set(got)
    for name in wanted:
        flat = lambda rows: [v for row in rows for v in (row if isinstance(row, list) else [row])]
        assert all(abs(p - q) < 1e-5 for p, q in zip(flat(got[name]), flat(wanted[name]))) and len(flat(got[name])) == len(flat(wanted[name])), (name, got[name])


def test_a_bias_is_part_of_the_product():
    g = ebb.Graph()
    x = g.input("x", (4, 3))
    g.output("y", x @ g.param("w", (2, 3)).T + g.param("b", (2,)))
    plain = ebb.Graph()
    u = plain.input("x", (4, 3))
    plain.output("y", ebb.linear(u, plain.param("w", (2, 3)), plain.param("b", (2,))))
    assert g.plan(optimizer=None).nodes == plain.plan(optimizer=None).nodes


def test_every_function_of_the_header_has_a_way_in():
    used = "".join(open(os.path.join(ROOT, "python/ebb", name)).read() for name in os.listdir(os.path.join(ROOT, "python/ebb")) if name.endswith(".py") and name != "_api.py")
    missing = [name for name in _api.FUNCTIONS if not re.search(rf"lib\.{name}\b", used)]
    # Joins of one axis, what join() does; texts of statuses are the exceptions; one program is the case of one of several.
    assert missing == ["ebb_status_text", "ebb_ctx_on_progress", "ebb_stack", "ebb_concat", "ebb_compile"], missing


def test_one_process_is_alone():
    """Without mpirun; with it: test_ranks_api.py."""
    ranks = ebb.Ranks(lost_after=5)
    assert (ranks.count, ranks.number, repr(ranks)) == (1, 0, "Ranks(0 of 1)")
    losses = []
    for options in {}, {"ranks": ranks, "reduce": "copies"}:
        g = ebb.Graph()
        x, w = g.input("x", (4, 3)), g.param("w", (2, 3))
        program = ebb.compile(ebb.mean(ebb.tanh(x @ w.T)), **options)
        losses.append([program.step(lr=0.1), program.step(lr=0.1)])
    assert losses[0] == losses[1], losses
    raises(ebb.UsageError, program.follow, "this process leads")
    raises(ebb.UsageError, lambda: ebb.compile(g, ranks=ranks, reduce="both"), "there is no reduce 'both'")
    raises(ebb.UsageError, lambda: ebb.compile(g, ranks=ranks, stages=2), "stages 2 do not divide")


def test_mistakes_are_raised_where_they_are_made():
    g = ebb.Graph()
    x, w = g.input("x", (4, 3)), g.param("w", (5, 2))
    other = ebb.Graph().input("x", (4, 3))
    raises(ebb.UsageError, lambda: x + other, "another graph")
    raises(ebb.UsageError, lambda: x[::2], "no step")
    raises(ebb.UsageError, lambda: g.input("i", (3,), "int64"), "int64")
    raises(ebb.UsageError, lambda: ebb.compile(x, optimiser="adam"), "there is no option 'optimiser'")
    raises(ebb.UsageError, lambda: ebb.compile(g, optimizer="adagrad"), "adagrad")
    raises(ebb.UsageError, lambda: ebb.compile(g, memory="lots"), "lots")
    why = raises(ebb.UsageError, lambda: x @ w.T, "linear", "[4,3]")
    assert "--" not in str(why)
    for wrong in (lambda: x + 1, lambda: x @ 2, lambda: x ** 3):
        try:
            wrong()
            raise AssertionError("no TypeError")
        except TypeError:
            pass


# ---- programs ----

def regression(rows=8, hidden=4, **options):
    g = ebb.Graph()
    x, y = g.input("x", (rows, 2)), g.input("y", (rows, 1))
    h = ebb.tanh(x @ g.param("w", (hidden, 2)).T + g.param("b", (hidden,)))
    guess = h @ g.param("v", (1, hidden)).T + g.param("c", (1,))
    g.output("guess", guess)
    return ebb.compile(ebb.mean((guess - y) ** 2), **{"optimizer": "adam", "threads": 1, **options})


def batch(rows=8, seed=0):
    xs = floats(*(math.sin(7.3 * i + seed) for i in range(2 * rows)))
    return {"x": shaped(xs, rows, 2), "y": shaped(floats(*(xs[2 * i] * xs[2 * i + 1] for i in range(rows))), rows, 1)}


def bits(program):
    return {name: bytes(memoryview(program[name]).cast("B")) for name in program.names("param")}


def test_training_learns_and_goes_on_with_the_same_bits():
    program = regression()
    losses = [program.step(lr=0.02, **batch(seed=i % 5)) for i in range(300)]
    assert losses[-1] < losses[0] / 5 and program.steps == 300 and program.grad_norm > 0 and program.loss == losses[-1]
    assert program.measured_bytes == program.plan.peak_bytes == sum(program.plan.bytes_by_kind.values())
    program.save_all("half.safetensors")
    other = regression(seed=9)
    other.load_all("half.safetensors")
    for p in program, other:
        for i in range(20):
            p.step(lr=0.02, **batch(seed=i))
    assert bits(program) == bits(other) and other.steps == 320
    program.save("weights.safetensors")
    fresh = regression(seed=3, memory="1M")
    fresh.load("weights.safetensors")
    assert bits(fresh) == bits(program)
    third = regression(seed=4)
    third.copy_from(program)
    assert bits(third) == bits(program)
    assert sorted(program.names("param")) == ["b", "c", "v", "w"] and program.shape("w") == (4, 2) and program.dtype("w") == "float32" and "w" in program


def test_views_are_the_bytes_themselves():
    program = regression()
    view = memoryview(program.view("w"))
    program["w"] = shaped(floats(*range(8)), 4, 2)
    assert view.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    view[1, 1] = 9.0
    assert memoryview(program["w"]).tolist()[1][1] == 9.0
    assert memoryview(program.view("guess")).readonly
    del program
    gc.collect()
    assert view[1, 1] == 9.0  # it keeps the program


def test_wrong_arrays_are_refused():
    program = regression()
    good = batch()["x"]
    raises(ebb.UsageError, lambda: program.set("x", shaped(array.array("d", [0] * 16), 8, 2)), "x: an array of float64", "float32 [8, 2]")
    raises(ebb.UsageError, lambda: program.set("x", shaped(floats(*[0] * 16), 2, 8)), "shape [2, 8]", "[8, 2]")
    raises(ebb.UsageError, lambda: program.set("x", shaped(floats(*[0] * 16), 16)), "shape [16]")
    raises(ebb.UsageError, lambda: program.set("w", memoryview(floats(*[0] * 16))[::2]), "w: the array is not contiguous")
    raises(ebb.UsageError, lambda: program.set("x", [[1.0, 2.0]] * 8), "list is no array")
    raises(ebb.UsageError, lambda: program.set("z", good), "no value of this name")
    raises(ebb.UsageError, lambda: program.set("guess", shaped(floats(*[0] * 8), 8, 1)), "guess")
    raises(ebb.ModelError, lambda: program.load(write("bad.safetensors", b"\0" * 20)), "bad.safetensors")
    raises(ebb.InputOutputError, lambda: program.load("none.safetensors"), "none.safetensors")
    before = bits(program)
    program["x"] = good.toreadonly()  # what may only be read is as good
    assert bytes(memoryview(program["x"]).cast("B")) == bytes(good.cast("B")) and bits(program) == before


def test_nothing_is_cut_on_its_way_to_c():
    """ctypes ends texts at a zero character, and drops the upper bits of integers."""
    program = regression()
    program.save("a")
    before = open("a", "rb").read()
    program["w"] = shaped(floats(*range(8)), 4, 2)
    raises(ebb.UsageError, lambda: program.save("a\0b"), "zero character")
    raises(ebb.UsageError, lambda: program.save(3.5), "float is no path")
    assert open("a", "rb").read() == before
    raises(ebb.UsageError, lambda: program.get("w\0x"), "zero character")
    g = ebb.Graph()
    raises(ebb.UsageError, lambda: g.param("p\0q", (2, 2)), "zero character")
    raises(ebb.UsageError, lambda: g.param("\ud800", (2, 2)), "half a character")
    raises(ebb.UsageError, lambda: g.param(7, (2, 2)), "int is no text")
    raises(ebb.UsageError, lambda: g.param("p", (2**64 + 2, 2)), "p: shape", "is not between")
    raises(ebb.UsageError, lambda: g.param("p", (2.5, 2)), "2.5 is no whole number")
    raises(ebb.UsageError, lambda: ebb.Graph(seed=-1), "seed")
    raises(ebb.UsageError, lambda: regression(threads=2**32 + 1), "threads")
    raises(ebb.UsageError, lambda: regression(shards="2"), "shards", "no whole number")
    raises(ebb.UsageError, lambda: regression(clip="much"), "clip", "is no number")
    raises(ebb.UsageError, lambda: regression(seed=2**64), "seed")
    raises(ebb.UsageError, lambda: program.step(lr="0.1"), "lr", "no number")
    raises(ebb.UsageError, lambda: setattr(program, "steps", -1), "steps")
    x = g.input("x", (4, 3))
    raises(ebb.UsageError, lambda: ebb.join([x, x], 2**32), "axis")
    raises(ebb.UsageError, lambda: ebb.sum_each(x, 2**32 + 2), "batch")
    raises(ebb.UsageError, lambda: ebb.dropout(x, 0.5, "a\0"), "site")
    assert g.param("p", (2, 3)).shape == (2, 3)  # none of that came into the graph


def test_ids_are_checked():
    g = ebb.Graph()
    ids = g.input("ids", (3,), "int32")
    g.output("rows", ebb.embed(g.param("table", (5, 2)), ids))
    program = ebb.compile(g, optimizer=None)
    raises(ebb.DataError, lambda: program.set("ids", shaped(array.array("i", [0, 5, 1]), 3)), "ids[1]: 5")
    raises(ebb.UsageError, lambda: program.view("ids"))
    raises(ebb.UsageError, lambda: program.set("ids", shaped(floats(0, 1, 2), 3)), "float32", "int32")


def test_budgets():
    least = regression(64, 64).plan.least_bytes
    why = raises(ebb.BudgetError, lambda: regression(64, 64, memory=least - 1), "too small")
    assert why.least_bytes == least and isinstance(why, MemoryError)
    assert regression(64, 64, memory=least).plan.peak_bytes <= least
    assert [ebb._sizes.size(text) for text in ("1K", "1.5MiB", "2 gb", 7, "7")] == [1024, 3 << 19, 2 << 30, 7, 7]
    class Index:  # as NumPy's whole numbers have it
        def __index__(self):
            return 4096
    assert ebb._sizes.size(Index()) == 4096
    for wrong in (4096.0, True, -1, 0, 2**63, "80%", b"1K"):
        raises(ebb.UsageError, lambda: ebb._sizes.size(wrong), "memory: ")
    raises(ebb.DivergedError, lambda: regression(optimizer="sgd").step(lr=1.0, x=shaped(floats(*[math.inf] * 16), 8, 2), y=batch()["y"]))


def test_devices():
    """A device that can be used computes the CPU's bits; one that is not there is refused with a sentence."""
    found = ebb.devices()
    assert found[0].name == "cpu" and found[0].why_not == "", found

    def trained(device):
        g = ebb.Graph()
        x, w = g.input("x", (4, 3)), g.param("w", (2, 3))
        program = ebb.compile(ebb.mean(ebb.tanh(x @ w.T)), memory="1M", device=device)
        return [program.step(lr=0.5, x=shaped(floats(*[0.1 * i for i in range(12)]), 4, 3)) for _ in range(3)]
    usable = [one.name for one in found[1:] if one.why_not == ""]
    if not usable:
        print("SKIPPED: no OpenCL device that can be used", flush=True)
    for name in usable:
        assert trained(name) == trained(None), name
    raises(ebb.UsageError, lambda: trained("tpu"), "tpu")


def test_programs_share_weights():
    def build(training):
        g = ebb.Graph()
        x = g.input("x" if training else "one", (4 if training else 1, 2))
        y = x @ g.param("w", (1, 2)).T
        if training:
            g.loss(ebb.mean((y - g.input("y", (4, 1))) ** 2))
        else:
            g.output("found", y)
        return g
    train, one = ebb.compile_all([build(True), build(False)], optimizer="sgd", threads=1)
    for _ in range(200):
        train.step(lr=0.2, x=shaped(floats(1, 0, 0, 1, 1, 1, 1, -1), 4, 2), y=shaped(floats(2, 3, 5, -1), 4, 1))
    one.step(one=shaped(floats(10, 1), 1, 2))
    assert abs(memoryview(one["found"])[0, 0] - 23) < 1e-3


def test_threads_have_contexts_of_their_own():
    found, seen = {}, set()

    def work(i):
        seen.add(ebb.context())
        program = regression(32, 16, memory="1M")
        for k in range(100):
            program.step(lr=0.02, **batch(32, k))
        found[i] = bits(program)
        try:
            regression(memory=10)
        except ebb.BudgetError as why:
            found[i]["error"] = why.least_bytes

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(seen) == 4 and len(found) == 4 and all(found[i] == found[0] for i in found) and found[0]["error"] > 10


def test_a_context_is_used_by_one_at_a_time():
    """The library knows no locks: two threads in one program are refused, whatever is computed then is whole."""
    program, refused, go = regression(512, 256, threads=2), [], threading.Barrier(3)
    alone = regression(512, 256, threads=2)

    def work():
        go.wait()
        for _ in range(200):
            try:
                program.run(lr=0.01)
            except ebb.UsageError as why:
                refused.append(str(why))

    for name, array in batch(512).items():
        program[name], alone[name] = array, array
    threads = [threading.Thread(target=work) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert program.steps + len(refused) == 600 and all("one thread at a time" in why for why in refused)
    for _ in range(program.steps):
        alone.run(lr=0.01)
    assert bits(alone) == bits(program)

    def meanwhile():
        raises(ebb.UsageError, lambda: program.run(), "one thread at a time")
        raises(ebb.UsageError, lambda: program._graph.param("more", (2, 2)), "one thread at a time")
    program._context.alone(meanwhile)


def test_what_is_dropped_while_the_library_works_is_freed_after():
    gc.collect()  # what earlier tests left
    context, dropped = ebb.context(), regression()
    before = len(context._users)

    def meanwhile():
        nonlocal dropped
        thread = threading.Thread(target=gc.collect)
        thread.start()
        del dropped
        thread.join()
        assert len(context._users) == before and len(context._dead) == 2  # a program and its graph
    context.alone(meanwhile)
    assert len(context._users) == before - 2 and not context._dead


def test_handles_are_not_copied():
    program = regression()
    for held in program, program._graph, ebb.context(), ebb.Ranks():
        for way in copy.copy, copy.deepcopy, pickle.dumps:
            try:
                way(held)
                raise AssertionError(f"{way.__name__} made a second {type(held).__name__}")
            except TypeError as why:
                assert "cannot be copied or pickled" in str(why), why
    assert copy.copy(program.plan) == program.plan == pickle.loads(pickle.dumps(program.plan))
    gc.collect()
    program.run(0.1)


def forked(work):
    """What a process that is forked off writes."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        os.dup2(into, 1)
        try:
            os.write(1, str(work()).encode())
        except BaseException as why:
            os.write(1, f"{type(why).__name__}: {why}".encode())
        os._exit(0)
    os.close(into)
    said = b"".join(iter(lambda: os.read(out, 4096), b"")).decode()
    assert os.waitpid(child, 0)[1] == 0, said
    os.close(out)
    return said


def test_a_forked_process_makes_its_own():
    program = regression(64, 64, threads=2)
    program.step(lr=0.1, **batch(64))
    assert forked(lambda: program.run(0.1)).startswith("UsageError: it was made before this process was forked off")
    assert forked(lambda: program["w"]).startswith("UsageError")
    assert float(forked(lambda: regression(64, 64, threads=2).step(lr=0.1, **batch(64)))) > 0

    def drop():
        nonlocal program
        del program
        return gc.collect() >= 0
    assert forked(drop) == "True"
    program.run(0.1)  # which it did not free


# ---- Ctrl-C, the log, pictures ----

DEEP = """
import ebb, sys
g = ebb.Graph()
h = g.input("x", (16, 64))
w = g.param("w", (64, 64))
for t in range(3000):
    h = ebb.tanh(h @ w.T)
print("built", flush=True)
try:
    while True:
        ebb.compile(ebb.mean(h) if not g.has_loss else g, memory="80%" if False else None, optimizer="adam")
except KeyboardInterrupt:
    print("heard")
"""


def interrupted(code):
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "built", process.stderr.read()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=200)
    assert out.strip() == "heard" and process.returncode == 0 and err == "", (out, err)


def test_ctrl_c_is_heard_while_it_compiles():
    interrupted(DEEP)


def test_ctrl_c_is_heard_while_it_frees():
    """What is raised in __del__ is lost, and what is raised behind a call must not leave the library at work for ever: many programs that
    are made, stepped and dropped, interrupted at any moment, and used again. (The first instructions of __del__ nobody can guard.)"""
    interrupted("""
import random, signal, threading, time, ebb
def make():
    g = ebb.Graph()
    return ebb.compile(ebb.mean(g.input("x", (8, 8)) @ g.param("w", (8, 8)).T))
kept = make()
main = threading.get_ident()
heard, lost, n = [], [], 0
def disturb():
    for k in range(60):
        time.sleep(0.001 + random.random() * 0.01)
        while not heard:
            signal.pthread_kill(main, signal.SIGINT)
            end = time.monotonic() + 1
            while not heard and time.monotonic() < end: time.sleep(0.0002)
            if not heard: lost.append(k)
        heard.clear()
def work():
    while ear.is_alive():
        kept.run(0.1)
        p = make()
        p.run(0.1)
        del p
ear = threading.Thread(target=disturb, daemon=True)
ear.start()
while ear.is_alive():
    try:
        work()
    except KeyboardInterrupt:
        n += 1
        heard.append(n)
kept.run(0.1)
print("built", flush=True)
try:
    if len(lost) > 3: print(len(lost), "of", n, "were lost")
    while True: kept.run(0.1)
except KeyboardInterrupt:
    print("heard")
""")


def test_ctrl_c_is_heard_between_steps():
    interrupted("import sys; sys.path.insert(0, %r)\n" % os.path.dirname(os.path.abspath(__file__)) + """
import ebb
g = ebb.Graph()
p = ebb.compile(ebb.mean(g.input("x", (64, 64)) @ g.param("w", (64, 64)).T))
print("built", flush=True)
try:
    while True: p.run(0.1)
except KeyboardInterrupt:
    print("heard")
""")


def test_pictures_draw_themselves():
    program = regression()
    for svg in program.plan.picture()._repr_svg_(), program._graph.curve()._repr_svg_():
        assert tree.fromstring(svg).tag.endswith("svg") and len(svg) > 1000
        # On a notebook's page its rules hold for nothing else there.
        style = re.search("<style>(.*?)</style>", svg, re.S).group(1).replace("@media (prefers-color-scheme:dark){", "")
        selectors = re.findall(r"([^{}]+)\{", style)
        assert len(selectors) > 20 and all(one.strip().startswith(".ebb-picture ") for one in selectors), selectors
    page = program._repr_html_()
    assert page.startswith("<div>") and "<svg" in page and "weights" in page
    program._graph.curve().save("curve.svg")
    assert os.path.getsize("curve.svg") > 1000


def test_pictures_hold_any_name():
    """A document with one byte that XML has not is not shown at all."""
    for name in "<b>&\"]]>", "bytes \udcff\udcc3", "\ufffe\uffff", "\u202e\U0010ffff":
        g = ebb.Graph()
        with g.layer(name):
            h = ebb.tanh(g.input(name, (4, 3)) @ g.param("w", (5, 3)).T)
        program = ebb.compile(ebb.mean(h))
        assert name in program.names("input")
        for svg in program.plan.picture().svg, g.curve().svg:
            tree.fromstring(svg)
            assert "<b>" not in svg
    for name in "two\nlines", "\x1b[31m", "\x7f":  # a message is one line
        raises(ebb.UsageError, lambda: ebb.Graph().param(name, (2, 2)), "control bytes")


def test_dlpack_is_read():
    class Tensor:  # DLPack by hand: what PyTorch gives
        def __init__(self, values, shape, strides=None, code=2, bits=32, device=1):
            self.data = (ctypes.c_float * len(values))(*values)
            self.device, self.dims = device, (ctypes.c_int64 * len(shape))(*shape)
            self.strides = (ctypes.c_int64 * len(shape))(*strides) if strides else None
            self.tensor = _arrays._Tensor(ctypes.addressof(self.data), device, 0, len(shape), code, bits, 1, self.dims, self.strides, 0)

        def __dlpack_device__(self):
            return self.device, 0

        def __dlpack__(self):
            if self.device == 1 and self.tensor.bits == 1:
                raise BufferError("only what lies in memory\nhas bytes")
            make = ctypes.pythonapi.PyCapsule_New
            make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
            return make(ctypes.addressof(self.tensor), b"dltensor", None)

    program = regression()
    program["w"] = Tensor(range(8), (4, 2))
    assert memoryview(program["w"]).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    raises(ebb.UsageError, lambda: program.set("w", Tensor(range(8), (4, 2), (1, 4))), "not contiguous")
    raises(ebb.UsageError, lambda: program.set("w", Tensor(range(8), (4, 2), bits=64)), "float64")
    raises(ebb.UsageError, lambda: program.set("w", Tensor(range(8), (4, 2), code=0)), "int32")
    raises(ebb.UsageError, lambda: program.set("w", Tensor(range(8), (4, 2), device=2)), "CPU")
    raises(ebb.UsageError, lambda: program.set("w", Tensor(range(8), (4, 2), bits=1)), "w: Tensor cannot be read", "has bytes")


main(globals())
