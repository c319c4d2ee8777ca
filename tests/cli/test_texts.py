"""Texts that are several files, patterns, or standard input."""
import gzip
import os
import signal

from ebbtest import TINY, ebb, main, metrics, pairs, refused, start, text, wait_for_step, weights, write

LM = ["train", "lm", *TINY, "--steps", "30", "--log-every", "10", "--quiet"]


def parts():
    """One text whole, and in three files: the second packed, the first without its last line end."""
    whole = open(text("whole", 90), "rb").read()
    lines = whole.splitlines(keepends=True)
    write("part-1.txt", b"".join(lines[:20]).rstrip(b"\n"))
    with gzip.open("part-2.txt", "wb") as file:
        file.write(b"".join(lines[20:55]))
    write("part-3.txt", b"".join(lines[55:]))
    return whole


def test_several_files_are_one_text():
    whole = parts()
    text("v", 20, seed=2)
    ebb(*LM, "--train", "whole", "--valid", "v", "--out", "a")
    for i, name in enumerate(["part-1.txt,part-2.txt,part-3.txt", "part-*.txt", "part-[12].txt,part-3.txt"]):
        ebb(*LM, "--train", name, "--valid", "v", "--out", f"b{i}")
        assert weights(f"b{i}") == weights("a") and metrics(f"b{i}") == metrics("a"), name
    ebb(*LM, "--train", "-", "--valid", "v", "--out", "c", input=whole)
    assert weights("c") == weights("a")
    one = ebb("eval", "lm", "a", "whole", "--json").json()
    assert ebb("eval", "lm", "a", "part-*.txt", "--json").json() == one == ebb("eval", "lm", "a", "-", "--json", input=whole).json()
    write("odd,name*.txt", whole)  # a file of that very name is meant
    ebb(*LM, "--train", "odd,name*.txt", "--valid", "v", "--out", "d")
    assert weights("d") == weights("a")


def test_a_run_of_several_files_goes_on():
    parts()
    run = ["train", "lm", *TINY, "--train", "part-1.txt,part-2.txt", "--steps", "200", "--save-every", "7", "--out"]
    ebb(*run, "whole-run")
    process = start(*run, "broken")
    wait_for_step(process, "broken", 20)
    process.send_signal(signal.SIGTERM)
    process.communicate()
    refused(3, "train", "lm", *TINY, "--train", "part-1.txt,part-9.txt", "--steps", "200", "--out", "broken", says="part-9.txt")
    ebb(*run, "broken")
    assert weights("whole-run") == weights("broken")
    # From elsewhere, by its config; and with a folder that cannot tell where it was started.
    os.makedirs("sub", exist_ok=True)
    folder = os.path.realpath("sub")
    ebb(*run, folder + "/far")
    config = open("sub/far/config", encoding="utf8").read()
    here = os.path.realpath(".")
    assert f"train = {here}/part-1.txt,{here}/part-2.txt" in config, config
    again = ebb("train", "lm", "--config", "../broken/config", "--steps", "210", "--quiet", cwd="sub")
    assert again.code == 0


def test_pairs():
    pairs("t", 60)
    for side in ["src", "tgt"]:
        lines = open("t." + side, "rb").read().splitlines(keepends=True)
        write("a." + side, b"".join(lines[:25]))
        write("b." + side, b"".join(lines[25:]))
    nmt = ["train", "nmt", "--hidden", "8", "--batch", "4", "--threads", "1", "--steps", "12", "--quiet"]
    ebb(*nmt, "--train", "t.src", "t.tgt", "--out", "one")
    ebb(*nmt, "--train", "[ab].src", "a.tgt,b.tgt", "--out", "two")
    assert weights("one") == weights("two")
    with open("t.src", "rb") as file:
        ebb(*nmt, "--train", "-", "t.tgt", "--out", "three", stdin=file)
    assert weights("one") == weights("three")
    refused(2, *nmt, "--train", "-", "-", "--out", "four", says="only one text")
    refused(3, *nmt, "--train", "[ab].src", "a.tgt", "--out", "five", says="lines")
    # As many lines in all, but not file by file.
    refused(3, *nmt, "--train", "[ab].src", "b.tgt,a.tgt", "--out", "six", says=["a.src has 25 lines, b.tgt has 35", "number 1"])


def test_scores():
    write("hyp", "a b c d e\nf g h i\n")
    whole = ebb("eval", "bleu", "hyp", "hyp", "--json").json()
    assert ebb("eval", "bleu", "-", "hyp", "--json", input=b"a b c d e\nf g h i\n").json() == whole
    write("1.ref", "a b c d e")
    write("2.ref", "f g h i\n")
    assert ebb("eval", "bleu", "hyp", "*.ref", "--json").json() == whole


def test_bad_names():
    parts()
    refused(3, *LM, "--train", "nothing-*.txt", "--out", "x", says=["nothing-*.txt", "no file"])
    refused(3, *LM, "--train", "part-1.txt,missing", "--out", "x", says=["missing", "No such file"])
    refused(3, *LM, "--train", "part-1.txt,.", "--out", "x", says="folder")
    write("empty", b"")
    refused(3, *LM, "--train", "part-1.txt,empty", "--out", "x", says="empty: is empty")
    result = ebb(*LM, "--train", "-", "--out", "x", expect=3, input=b"")
    assert "data file standard input: is empty" in result.err


if __name__ == "__main__":
    main(globals())
