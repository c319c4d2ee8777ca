"""Runs from Python: trained, resumed, used; the same as the command; wrong kinds and texts; Ctrl-C."""
import contextlib
import io
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as tree

from pytest_ebb import need_library

need_library()
import ebb as package  # noqa: E402
from ebb import command  # noqa: E402
from ebbtest import ebb, main, photos, text, write  # noqa: E402

QUIET = dict(quiet=True, threads=1, memory="64M")


def raises(kind, call, *says):
    try:
        call()
    except package.EbbError as why:
        assert type(why) is kind and all(part in str(why) for part in says), f"{type(why).__name__}: {why}"
        assert "\n" not in str(why) and " --" not in str(why), why
        return why
    raise AssertionError(f"no {kind.__name__}")


def read(path):
    with open(path, encoding="utf8") as file:
        return file.read()


def translator():
    command.call("data", "dates", "t.src", "t.tgt", lines=800)
    command.call("data", "dates", "v.src", "v.tgt", lines=100, seed=2)
    return package.train("nmt", "run", train=["t.src", "t.tgt"], hidden=16, batch=16, vocab="all", lr=0.01, epochs=2, **QUIET)


def test_translates_as_the_command_does():
    run = translator()
    lines = read("v.src").splitlines()
    assert len(lines) == 100 and run.kind == "nmt" and run.config["hidden"] == "16"
    wanted = ebb("decode", "run", "--threads", "1", input=read("v.src").encode()).out.splitlines()
    assert run.translate(lines) == wanted
    assert run.measured_bytes <= run.plan.peak_bytes <= 64 << 20
    best = run.translate(lines[:7], beam=3, nbest=2)
    rows = ebb("decode", "run", "--threads", "1", "--beam", "3", "--nbest", "2", input="\n".join(lines[:7]).encode()).out.splitlines()
    assert [f"{i} ||| {one.text} ||| {one.log_prob:.6f} ||| {one.score:.6f}" for i, row in enumerate(best) for one in row] == rows
    scores = run.score([row[0].text for row in best], lines[:7])
    assert all(abs(score.log_prob - row[0].log_prob) < 2e-4 for score, row in zip(scores, best)) and scores[0].perplexity >= 1
    small = package.Run("run", memory=run.plan.least_bytes + (1 << 20), threads=2)
    assert small.translate(lines[:20]) == wanted[:20]
    assert run.translate([]) == [] and run.translate([""]) == [""]
    for unk in ["ban", "keep"]:
        assert run.translate(lines[:9], unk=unk) == ebb("decode", "run", "--threads", "1", "--unk", unk, input="\n".join(lines[:9]).encode()).out.splitlines()
    raises(package.UsageError, lambda: run.translate(lines, unk="drop"), "drop")
    last = package.Run("run", weights="last").translate(lines[:9])
    assert last == ebb("decode", "run", "--threads", "1", "--weights", "last", input="\n".join(lines[:9]).encode()).out.splitlines()
    assert package.Run("run", weights="run/last.safetensors").translate(lines[:9]) == last
    raises(package.InputOutputError, lambda: package.Run("run", weights="none.safetensors").translate(lines), "none.safetensors")
    command.call("train", "nmt", train=["v.src", "v.tgt"], init="run", out="tuned", batch=16, lr=0.02, epochs=3, threads=1, quiet_=True)
    both = ebb("decode", "run", "tuned", "--threads", "1", input="\n".join(lines[:9]).encode()).out.splitlines()
    assert run.translate(lines[:9], others=["tuned"]) == both and run.translate(lines[:9]) == wanted[:9]
    raises(package.UsageError, lambda: run.translate(lines, others="tuned"), "a list of folders")
    raises(package.ModelError, lambda: run.translate(lines, others=["t.src"]), "t.src")
    for wrong in dict(beam=2**32 + 5), dict(nbest=1.5), dict(length_penalty="1"):
        raises(package.UsageError, lambda: run.translate(lines, **wrong), next(iter(wrong)))
    raises(package.UsageError, lambda: package.Run("run\0x"), "zero character")
    raises(package.UsageError, lambda: package.Run("run", batch=2**64 + 1), "batch")
    raises(package.DataError, lambda: run.translate(["a\nb"]), "line 0 holds a line end")
    raises(package.UsageError, lambda: run.translate("one text"), "list of lines")
    raises(package.UsageError, lambda: run.translate(7), "not int")
    assert run.translate(line for line in lines[:3]) == wanted[:3]
    assert run.score((line for line in wanted[:2]), iter(lines[:2])) == run.score(wanted[:2], lines[:2])
    raises(package.UsageError, lambda: run.translate(["a", 3]), "line 1: int is no text")
    raises(package.UsageError, lambda: run.translate(lines, beam=2, nbest=3), "beam 2", "nbest 3")
    raises(package.UsageError, lambda: run.generate(), "translation model")
    raises(package.UsageError, lambda: run.score(lines), "needs sources")
    raises(package.UsageError, lambda: run.score(lines, lines[1:]), "100 lines and 99 sources")
    why = raises(package.BudgetError, lambda: package.Run("run", memory="1K").translate(lines), "too small")
    assert why.least_bytes > 1024
    run.close()
    raises(package.UsageError, lambda: run.translate(lines), "closed")


def test_trains_resumes_generates_and_scores():
    text("t.txt", 200)
    options = dict(hidden=16, layers=1, batch=4, bptt=7, log_every=10, valid="t.txt", **QUIET)
    run = package.train("lm", "run", train="t.txt", epochs=1, **options)
    whole = package.train("lm", "whole", train="t.txt", epochs=2, **options)
    run = run.resume(quiet=True, epochs=2)
    weights = [open(f"{name}/last.safetensors", "rb").read() for name in ("run", "whole")]
    assert weights[0] == weights[1] and run.metrics[-1]["epoch"] == 2
    assert tree.fromstring(run._repr_svg_()).tag.endswith("svg") and "Run('run', lm)" == repr(run)
    with open("run/metrics.jsonl", "ab") as file:
        file.write(b'{"step": 1')  # a line that is being written
    assert run.metrics[-1]["epoch"] == 2
    with open("run/metrics.jsonl", "ab") as file:
        file.write(b"\xff\n")
    raises(package.DataError, lambda: run.metrics, "metrics.jsonl:", "no line of metrics")
    with open("run/metrics.jsonl", "rb+") as file:
        file.truncate(file.read().rindex(b'{"step": 1'))
    run.report("page.html")
    assert "<svg" in read("page.html")
    pieces = []
    written = run.generate(tokens=30, temperature=0.5, seed=3, prompt="w1 w2", on_text=pieces.append)
    assert written == "".join(pieces) == ebb("generate", "run", "--length", "30", "--temperature", "0.5", "--seed", "3", "--prompt", "w1 w2", "--threads", "1").out
    drawn = run.generate(tokens=40, seed=5, top_k=4, top_p=0.9, stop_at_eos=True)
    assert drawn == ebb("generate", "run", "--length", "40", "--seed", "5", "--top-k", "4", "--top-p", "0.9", "--stop-at-eos", "--threads", "1").out
    raises(package.UsageError, lambda: run.generate(top_p=0.0), "top_p 0")
    raises(package.UsageError, lambda: run.generate(prompt="w1\0w2"), "zero character")
    raises(package.UsageError, lambda: run.generate(tokens=2**64 + 3), "tokens")
    def enough(piece):
        raise RuntimeError("enough")
    try:
        run.generate(on_text=enough)
        raise AssertionError("it went on")
    except RuntimeError:
        pass
    one, two, three = run.score(["w1 w2", "nothing w1", ""])
    assert one.tokens == 3 and one.unknown == 0 and two.unknown == 1 and three.tokens == 1 and one.perplexity > 1
    raises(package.ModelError, lambda: package.Run("."), "config")
    raises(package.UsageError, lambda: run.probabilities(["a.png"]), "language model")
    why = None
    try:
        package.train("lm", "bad", train="none.txt", quiet=True)
    except package.EbbError as error:
        why = error
    assert why is not None and "none.txt" in str(why) and not os.path.exists("bad/config")


def test_bytes_become_characters():
    write("t.txt", "äöü ßéè 日本語 ñ\n" * 60)
    run = package.train("lm", "run", train="t.txt", tokens="byte", vocab="all", hidden=16, layers=1, batch=4, bptt=12, lr=1, epochs=4, **QUIET)
    pieces = []
    written = run.generate(tokens=60, seed=3, on_text=pieces.append)
    assert written == "".join(pieces) and len(pieces) > 20 and any(ord(letter) > 127 and letter != "\ufffd" for letter in written), written
    assert written.encode()[:9] == ebb("generate", "run", "--length", "60", "--seed", "3", "--threads", "1").out.encode()[:9]


def test_the_command_says_what_was_wrong():
    text("t.txt", 100)
    small = dict(train="t.txt", hidden=16, memory="10K")
    why = raises(package.BudgetError, lambda: package.train("lm", "run", quiet=True, **small), "too small")
    assert why.least_bytes > 10 << 10
    assert package.train("lm", "run", quiet=True, **{**small, "memory": why.least_bytes, "steps": 2}).kind == "lm"
    raises(package.UsageError, lambda: command.call("data", "grammar", "a\0b"), "cannot be run")
    # What it says while it works is seen where Python's is (a notebook), and is in the exception too.
    with contextlib.redirect_stderr(io.StringIO()) as said:
        loud = raises(package.BudgetError, lambda: package.train("lm", "run2", **small), "too small")
        assert loud.least_bytes == why.least_bytes and str(loud) in said.getvalue()
        package.train("lm", "run2", **{**small, "memory": why.least_bytes, "steps": 2})
    assert "done: 2 steps" in said.getvalue()
    with contextlib.redirect_stderr(io.StringIO()) as said:
        said.close()
        assert package.train("lm", "run3", **{**small, "memory": why.least_bytes, "steps": 2}).kind == "lm"


STOPPED = """
import ebb
print("built", flush=True)
try:
    ebb.train("lm", "run", train="t.txt", hidden=16, layers=1, batch=4, bptt=7, epochs=10**6, threads=1, memory="64M", quiet=True)
except KeyboardInterrupt:
    print("heard", ebb.Run("run", weights="last").kind)
"""


def test_ctrl_c_that_reaches_python_alone_stops_training():
    text("t.txt", 100)
    process = subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "built", process.stderr.read()
    while not os.path.exists("run/last.safetensors"):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)  # not the group's, as a terminal's would be
    out, err = process.communicate(timeout=100)
    assert out.strip() == "heard lm" and err == "", (out, err)


def test_predicts_as_the_command_does():
    photos("images", 12, 1)
    net = write("net.txt", "input 3 8 8\nconv 4 3 pad 1\nrelu\nflatten\nfc 3\n")
    run = package.train("cnn", "run", train="images", net=net, batch=8, epochs=2, **QUIET)
    files = [f"images/{name}/{i:03}.png" for name in run.classes for i in range(3)]
    assert run.classes == ["across", "both", "down"]
    wanted = ebb("predict", "run", *files, "--json", "--threads", "1").json()["images"]
    for found, answer in zip(run.predict(files, top=2), wanted):
        assert found.best == answer["best"][0]["name"] and len(found.classes) == 2
        assert all(abs(p - best["probability"]) < 1e-9 for p, best in zip(found.probabilities, answer["best"]))
    grey = memoryview(bytes(range(96)) * 2).cast("B", (2, 8, 12, 1))
    rows = run.probabilities(grey)
    assert len(rows) == 2 and rows[0] == rows[1] and abs(sum(rows[0]) - 1) < 1e-9
    raises(package.UsageError, lambda: run.predict(memoryview(bytes(64)).cast("B", (8, 8))), "uint8 [8, 8]")
    raises(package.DataError, lambda: run.predict(memoryview(bytes(128)).cast("B", (1, 8, 8, 2))), "2 channels")
    raises(package.DataError, lambda: run.predict([write("bad.png", "no image")]), "bad.png")
    raises(package.UsageError, lambda: run.predict(files, top=0), "top 0")
    assert run.probabilities([]) == []


LONG = """
import ebb
run = ebb.Run("run")
print("built", flush=True)
try:
    run.generate(tokens=10**9)
except KeyboardInterrupt:
    print("heard", run.generate(tokens=3) != "")
"""


def test_ctrl_c_is_heard_and_the_gil_is_free():
    text("t.txt", 100)
    package.train("lm", "run", train="t.txt", hidden=16, layers=1, batch=4, bptt=7, steps=5, **QUIET)
    process = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "built", process.stderr.read()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert out.strip() == "heard True" and err == "", (out, err)
    import threading
    run, counted = package.Run("run"), []
    worker = threading.Thread(target=lambda: counted.append(len(package.Run("run").generate(tokens=3000))))
    worker.start()
    ours = len(run.generate(tokens=3000))
    worker.join()
    assert counted == [ours]


main(globals())
