#!/usr/bin/env python3
"""Compares `ebb data codes` with subword-nmt on random texts: few letters, so that pairs overlap and
come up again; every kind of white space and line end; the mark </w> in the text.

Needs subword-nmt; env PEER_PYTHON may name an interpreter that has it. Without: exit code 77. Golden
files that need it not are in tests/golden/test_codes.c."""
import codecs
import io
import os
import random
import sys

SKIPPED = 77

try:
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.learn_bpe import learn_bpe
except ImportError as missing:
    peer = os.environ.get("PEER_PYTHON")
    if peer and not os.environ.get("EBB_PEER_TRIED"):
        os.execve(peer, [peer, *sys.argv], {**os.environ, "EBB_PEER_TRIED": "1"})
    print(f"SKIPPED test_subword_nmt.py: {missing}; set PEER_PYTHON to an interpreter with subword-nmt", file=sys.stderr)
    sys.exit(SKIPPED)

from ebbtest import ebb, main, write  # noqa: E402

LETTERS = ["ab", "abc ", "aab \n", "abcd \n\t", "ab\u00a0 \n", "a\u3000b\u2003 ", ".-  \n", "a</w>b \n", "aé漢😀 \n", "ab\r\n \x0b\x0c",
           "ab\x1c\x1d\x85\u2028\u2029 \n", "@ab \n", "\\ab()[]*.+ \n"]
TEXTS = 60


def make(dice):
    letters = dice.choice(LETTERS) + dice.choice(["", " \n"])
    length = dice.choice([20, 100, 600, 3000])
    if dice.random() < 0.3:
        words = ["".join(dice.choice(letters) for _ in range(dice.randint(1, 12))) for _ in range(dice.randint(2, 30))]
        return "".join(dice.choice(words) + dice.choice(" \n  ") for _ in range(length // 6 + 2))
    return "".join(dice.choice(letters) for _ in range(length))


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_random_texts():
    sys.stderr = io.StringIO()  # its progress
    try:
        dice, compared = random.Random(4), 0
        for _ in range(TEXTS):
            write("text", make(dice))
            pairs, theirs = dice.choice([5, 50, 300]), io.StringIO()
            try:
                learn_bpe(codecs.open("text", encoding="utf-8"), theirs, pairs)
            except ValueError:  # it has nothing to count
                continue
            if theirs.getvalue().count("\n") == 1:
                ebb("data", "codes", "learn", "text", "codes", "--codes", pairs, expect=3)
                continue
            ebb("data", "codes", "learn", "text", "codes", "--codes", pairs, "--quiet")
            assert read("codes") == theirs.getvalue().encode()
            ebb("data", "codes", "apply", "codes", "text", "cut")
            made = BPE(codecs.open("codes", encoding="utf-8"))
            assert read("cut") == "".join(made.process_line(line) for line in codecs.open("text", encoding="utf-8")).encode()
            compared += 1
        assert compared > TEXTS / 2
    finally:
        sys.stderr = sys.__stderr__


if __name__ == "__main__":
    main(globals())
