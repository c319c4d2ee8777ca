#!/usr/bin/env python3
"""`ebb data codes`: learning and applying, files and standard streams, gzip, what is refused and that
nothing is overwritten then. Equality with subword-nmt on golden files: tests/golden/test_codes.c; on
random texts: test_subword_nmt.py."""
import gzip
import os
import subprocess

from ebbtest import EBB, ebb, main, refused, write

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/codes")
TEXT = "the dog and the man\nan old man and the old dog ate\n" * 3


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_learn_and_apply():
    write("t", TEXT)
    found = ebb("data", "codes", "learn", "t", "c", "--codes", "12", "--json").json()
    assert found["codes"] == 12 and read("c").count(b"\n") == 13
    done = ebb("data", "codes", "apply", "c", "t", "o", "--json").json()
    assert done["words"] == 39 and done["pieces"] == read("o").decode().count("@@ ") + 39
    assert read("o").decode().replace("@@ ", "") == TEXT
    with gzip.open("t.gz", "wb") as file:
        file.write(TEXT.encode())
    ebb("data", "codes", "learn", "t.gz", "c2", "--codes", "12")
    assert read("c") == read("c2")


def test_several_files_are_one_text():
    write("a", TEXT[:20])
    write("b", TEXT[20:])
    write("ab", TEXT[:20] + "\n" + TEXT[20:])
    ebb("data", "codes", "learn", "a", "b", "c", "--codes", "9", "--quiet")
    ebb("data", "codes", "learn", "ab", "d", "--codes", "9", "--quiet")
    assert read("c") == read("d")


def test_streams():
    write("t", TEXT)
    ebb("data", "codes", "learn", "t", "c", "--codes", "12")
    ebb("data", "codes", "apply", "c", "t", "o")
    learnt = subprocess.run([EBB, "data", "codes", "learn", "-", "-", "--codes", "12"], input=TEXT.encode(), capture_output=True, check=True)
    assert learnt.stdout == read("c")
    applied = subprocess.run([EBB, "data", "codes", "apply", "c", "-", "-"], input=TEXT.encode(), capture_output=True, check=True)
    assert applied.stdout == read("o")
    # What is there is answered before the end.
    filtering = subprocess.Popen([EBB, "data", "codes", "apply", "c", "-", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    filtering.stdin.write(b"the dog\n")
    filtering.stdin.flush()
    assert filtering.stdout.readline().replace(b"@@ ", b"") == b"the dog\n"
    filtering.stdin.close()
    assert filtering.wait() == 0
    refused(2, "data", "codes", "learn", "-", "-", "c", "--codes", "3", says="only once")


def test_bad_input_overwrites_nothing():
    write("t", TEXT)
    write("mine", "precious")
    write("bad", "#version: 0.2\na b\nxyz d\n")
    for codes, says in [("bad", "bad:3"), ("none", "no such file"), (".", "a folder"), ("t", "piece")]:
        refused(7 if codes == "." else 3, "data", "codes", "apply", codes, "t", "mine", says=says)
    write("lots", b"a b\n" * ((1 << 20) + 1))
    refused(3, "data", "codes", "apply", "lots", "t", "mine", says="more than 1048576 pairs")
    with open("huge", "wb") as file:
        file.truncate(10 ** 9)
    refused(3, "data", "codes", "apply", "huge", "t", "mine", says="no codes")
    write("letters", "a b c d\n")
    known = "#version: 0.2\na b\n"
    write("known", known)
    refused(3, "data", "codes", "learn", "letters", "known", "--codes", "5", says="nothing to learn")
    refused(3, "data", "codes", "learn", "none", "known", "--codes", "5", says="none")
    # A forgotten OUT: the last text is not written over, nor is what is read.
    refused(2, "data", "codes", "learn", "t", "mine", "--codes", "5", says=["mine", "holds no codes"])
    refused(2, "data", "codes", "apply", "known", "mine", "mine", says="written over")
    refused(2, "data", "codes", "apply", "known", "mine", "known", says="written over")
    assert read("known") == known.encode()
    ebb("data", "codes", "learn", "t", "known", "--codes", "5")  # codes that are there are made anew
    assert read("known") != known.encode()
    refused(2, "data", "codes", "learn", "t", "mine", says="--codes N")
    refused(2, "data", "codes", "teach", "t", "mine", says="usage")
    refused(2, "data", "codes", "apply", "t", "mine", says="usage")
    refused(2, "data", "codes", "learn", "t", "mine", "--codes", "0", says="out of range")
    write("long", "a" * 70000 + "\n")
    refused(3, "data", "codes", "apply", os.path.join(GOLDEN, "words.codes"), "long", "mine", says="long:1")
    assert read("mine") == b"precious"


if __name__ == "__main__":
    main(globals())
