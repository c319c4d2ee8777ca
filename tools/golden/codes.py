#!/usr/bin/env python3
"""Writes tests/golden/codes: texts, and what subword-nmt learns from them and makes of them.
Needs subword-nmt (made with 0.3.8). For each case NAME.txt is the text, NAME.codes what was learnt,
NAME.cut the text with its words cut; old.codes is of version 0.1, and old.cut is words.txt by it."""
import codecs
import io
import os
import random

from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/golden/codes")
# Letters of a random text; what lies between words is among them.
CASES = {"words": ("the dog of a man and an old woman sat ate then that", 60), "repeats": ("a aa aaa ab abab .. .... -- ha haha hahaha", 40),
         "scripts": ("straße Tür Über 漢字 漢 字漢字 привет привед 😀😀 😀 é e\u0301", 60), "marks": ("a</w>b <w> </w> a</w> w> @@ a@@b b@@", 40),
         "spaces": ("a\u00a0b a\u00a0bc x\ty x\tyz a\u3000b \u2003ab ab\u00a0ab\u00a0ab", 60)}
ENDS = {"words": "\n", "repeats": "\n", "scripts": "\n", "marks": "\n", "spaces": "\n\r\x0b\x0c\x1c\x85\u2028"}


def path(name):
    return os.path.join(FOLDER, name)


def cut(codes, text, out):
    made = BPE(codecs.open(path(codes), encoding="utf-8"))
    with open(path(out), "wb") as file:
        for line in codecs.open(path(text), encoding="utf-8"):
            file.write(made.process_line(line).encode())


def main():
    os.makedirs(FOLDER, exist_ok=True)
    dice = random.Random(9)
    for name, (words, pairs) in CASES.items():
        lines = []
        for _ in range(40):
            line = dice.choice(["", "", " ", "  "]) + dice.choice([" ", " ", "  "]).join(
                "".join(dice.choice(words.split(" ")) for _ in range(dice.choice([1, 1, 2, 3]))) for _ in range(dice.randrange(8)))
            lines.append(line + dice.choice(["", "", " "]) + dice.choice(ENDS[name]))
        with open(path(name + ".txt"), "wb") as file:
            file.write("".join(lines).encode())
        learnt = io.StringIO()
        learn_bpe(codecs.open(path(name + ".txt"), encoding="utf-8"), learnt, pairs)
        with open(path(name + ".codes"), "wb") as file:
            file.write(learnt.getvalue().encode())
        cut(name + ".codes", name + ".txt", name + ".cut")
    with open(path("old.codes"), "wb") as file:
        file.write(b"t h\nth e\nthe </w>\na n\nan d\nand </w>\na t\ns at\nat </w>\nd </w>\no l\nol d\n")
    cut("old.codes", "words.txt", "old.cut")


main()
