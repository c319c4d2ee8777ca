"""Runs used from C (ebb_run_*): what the library gives is what the command gives, under the same budget, on several threads; what is
wrong is said in the library's words."""
import atexit
import math
import os
import re
import shutil
import subprocess
import tempfile

from ebbtest import EBB, ebb, main, photos, text, write

USE = os.path.join(os.path.dirname(EBB), "tests/cli/use_run")
made = {}


def model(kind):
    """A small run of each kind, and a text for it."""
    if kind not in made:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        out = ["--threads", "1", "--memory", "64M", "--out", folder + "/run", "--quiet"]
        if kind == "nmt":
            ebb("data", "dates", folder + "/t.src", folder + "/t.tgt", "--lines", "1500")
            ebb("data", "dates", folder + "/v.src", folder + "/v.tgt", "--lines", "100", "--seed", "2")
            ebb("train", "nmt", "--train", folder + "/t.src", folder + "/t.tgt", "--hidden", "24", "--batch", "16", "--vocab", "all", "--lr", "0.01",
                "--epochs", "6", *out)
        elif kind == "cnn":
            photos(folder + "/images", 12, 1)
            ebb("train", "cnn", "--train", folder + "/images", "--net", write(folder + "/net.txt", "input 3 8 8\nconv 4 3 pad 1\nrelu\nflatten\nfc 3\n"), "--batch", "8", "--epochs", "2", *out)
        else:
            text(folder + "/t.txt", 200)
            ebb("train", "lm", "--train", folder + "/t.txt", "--hidden", "16", "--layers", "2", "--batch", "4", "--bptt", "7", "--epochs", "2",
                *{"by-sentence": ["--by-sentence"], "codes": ["--by-sentence", "--tokens", "bpe", "--codes", "20"], "lm": []}[kind], *out)
        made[kind] = folder
    return made[kind]


def use(run, *args, data=b"", expect=0, memory=None, other=None):
    env = {**os.environ, **({"MEMORY": str(memory)} if memory else {}), **({"OTHER": other} if other else {})}
    done = subprocess.run([USE, run, *map(str, args)], input=data, capture_output=True, timeout=250, env=env)
    assert done.returncode == expect, f"{args}: exit {done.returncode}: {done.stderr.decode()[-2000:]}"
    return done.stdout.decode(), done.stderr.decode()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_translates_as_the_command_does():
    folder = model("nmt")
    lines = read(folder + "/v.src")
    assert lines.count(b"\n") == 100
    wanted = ebb("decode", folder + "/run", "--threads", "1", input=lines).out
    got, said = use(folder + "/run", "translate", 5, 1, 2, 1, data=lines)
    assert got == wanted and len(set(got.split("\n"))) > 10
    planned, measured, budget = map(int, said.split())
    assert 0.9 * planned < measured <= planned <= budget == 64 << 20, said
    best = ebb("decode", folder + "/run", "--threads", "1", "--beam", "3", "--nbest", "3", input=lines).out
    assert use(folder + "/run", "translate", 3, 3, 1, 1, data=lines)[0] == best


def test_an_ensemble_translates_as_the_command_does():
    folder = model("nmt")
    if not os.path.exists(folder + "/tuned"):  # its --init is no matter of its form
        ebb("train", "nmt", "--train", folder + "/v.src", folder + "/v.tgt", "--init", folder + "/run", "--batch", "16", "--lr", "0.02", "--epochs", "3",
            "--threads", "1", "--out", folder + "/tuned", "--quiet")
    lines = read(folder + "/v.src")
    wanted = ebb("decode", folder + "/run", folder + "/tuned", "--threads", "1", "--nbest", "2", input=lines).out
    assert wanted != ebb("decode", folder + "/run", "--threads", "1", "--nbest", "2", input=lines).out
    assert use(folder + "/run", "translate", 5, 2, 2, 2, data=lines, other=folder + "/tuned")[0] == wanted
    said = use(folder + "/run", "translate", 5, 1, 1, 1, data=lines, other=model("lm") + "/run", expect=5)[1]
    assert "is a language model, where" in said and " --" not in said, said
    assert "no such" in use(folder + "/run", "translate", 5, 1, 1, 1, data=lines, other="no such", expect=5)[1]


def test_threads_and_budgets_change_nothing():
    folder = model("nmt")
    lines = read(folder + "/v.src")
    wanted = ebb("decode", folder + "/run", "--threads", "1", input=lines).out
    assert use(folder + "/run", "translate", 5, 1, 1, 3, data=lines)[0] == wanted
    small, said = use(folder + "/run", "translate", 5, 1, 1, 1, data=lines, memory=1800000)
    planned, measured, budget = map(int, said.split())
    assert small == wanted and measured <= planned <= 1800000 == budget


def test_generates_as_the_command_does():
    for kind in "lm", "by-sentence":
        run = model(kind) + "/run"
        for temperature, prompt in ("1", ""), ("0.5", "w1 w2\nw3 nothing"), ("0", "w4"):
            wanted = ebb("generate", run, "--length", "60", "--temperature", temperature, "--seed", "7", "--prompt", prompt, "--threads", "1").out
            assert use(run, "generate", 60, temperature, 7, prompt)[0] == 2 * wanted


def scores(run, data):
    return [(float(a), int(b), int(c)) for a, b, c in (line.split() for line in use(run, "score", data=data)[0].splitlines())]


def sums_are_those_of_eval(kind):
    folder = model(kind)
    write("some.txt", "w1 w2 w3\nw5 w11\nw9 w12 w29\n")
    found, wanted = scores(folder + "/run", read("some.txt")), ebb("eval", "lm", folder + "/run", "some.txt", "--json").json()
    assert sum(n for _, n, _ in found) == wanted["tokens"] and math.isclose(-sum(p for p, _, _ in found) / wanted["tokens"], wanted["loss"], rel_tol=1e-5)


def test_scores_lines():
    for kind in "codes", "by-sentence":
        sums_are_those_of_eval(kind)
    folder = model("by-sentence")
    write("held.txt", "w1 w2 w3\nw5\nw9 w9 w9 w9 w9 w9 w9 nothing\n" + "w1 w2 " * 45 + "\n")
    found = scores(folder + "/run", read("held.txt"))
    wanted = ebb("eval", "lm", folder + "/run", "held.txt", "--json").json()
    assert [n for _, n, _ in found] == [4, 2, 9, 91] and [u for _, _, u in found] == [0, 0, 1, 0]
    assert math.isclose(-sum(p for p, _, _ in found) / wanted["tokens"], wanted["loss"], rel_tol=1e-5) and wanted["tokens"] == 106
    for i, line in enumerate(read("held.txt").splitlines()):  # nobody's neighbours matter
        assert scores(folder + "/run", line) == [found[i]]
    # A model of one stream: the sum over a line is that of its tokens, each given those before it, from zeros.
    stream = scores(model("lm") + "/run", b"w1 w2 w3\n\nw1 w2 w3\n")
    assert stream[0] == stream[2] and stream[1][1] == 1 and stream[0][0] < 0


def test_scores_translations():
    folder = model("nmt")
    sources, targets = (read(folder + "/v" + side).splitlines() for side in (".src", ".tgt"))
    found = scores(folder + "/run", b"".join(s + b"\t" + t + b"\n" for s, t in zip(sources, targets)))
    wanted = ebb("eval", "nmt", folder + "/run", folder + "/v.src", folder + "/v.tgt", "--json").json()
    assert sum(n for _, n, _ in found) == wanted["tokens"]
    assert math.isclose(-sum(p for p, _, _ in found) / wanted["tokens"], wanted["loss"], rel_tol=1e-5)
    # A translation has the log probability that the search gave it.
    best = ebb("decode", folder + "/run", "--beam", "2", "--nbest", "2", "--threads", "1", input=b"\n".join(sources) + b"\n").out
    rows = [row.split(" ||| ") for row in best.splitlines()]
    again = scores(folder + "/run", b"".join(sources[int(n)] + b"\t" + t.encode() + b"\n" for n, t, _, _ in rows))
    for (_, _, log_prob, _), (p, _, _) in zip(rows, again):
        assert math.isclose(float(log_prob), p, abs_tol=2e-4), (log_prob, p)
    long = scores(folder + "/run", b"1 " * 200 + b"\t1\n" + sources[0] + b"\t" + targets[0] + b"\n")
    assert math.isnan(long[0][0]) and long[1] == found[0]


def test_predicts_as_the_command_does():
    folder = model("cnn")
    files = sorted(os.path.join(root, name) for root, _, names in os.walk(folder + "/images") for name in names)[:11]
    wanted = ebb("predict", folder + "/run", *files, "--json", "--threads", "1").json()["images"]
    got = [line.split() for line in use(folder + "/run", "predict", *files)[0].splitlines()]
    assert len(got) == len(wanted) == 11
    for row, answer in zip(got, wanted):
        by_name = dict(zip(row[::2], map(float, row[1::2])))
        for best in answer["best"]:
            assert math.isclose(by_name[best["name"]], best["probability"], rel_tol=1e-8)


def test_what_is_wrong_is_said_in_its_words():
    for kind in "nmt", "lm", "cnn":
        said, _ = use(model(kind) + "/run", "misuse")
        lines = said.splitlines()
        codes = [int(line.split()[0]) for line in lines]
        assert " --" not in said and "ebb decode" not in said, said
        for code, line in zip(codes, lines):
            sentence = line.split("): ", 1)[1]
            assert "(NULL" in line or (sentence == "") == (code == 0), line
        own = {"nmt": "translate(", "lm": "generate(", "cnn": "predict"}[kind]
        others = [line for line in lines if "cannot do that" in line and "(NULL" not in line]
        assert others and not any(own in line for line in others), others
        if kind != "cnn":
            small = [line for line in lines if own in line and line.startswith("4 ")]
            assert small and re.search(r"too small: the least that works is \d+ bytes \(memory \d+\)", small[0]), lines
            assert any(line.startswith("75 ") and own in line for line in lines), lines
        assert codes.count(5) == 2, lines  # no such folder, no run in it


main(globals())
