#!/usr/bin/env python3
"""GPT-2's vocab.json and merges.txt: `ebb data codes apply` gives the numbers of `tokenizers` (golden ones always; where that library
is installed 10,000 fresh lines of many scripts and every code point there is), models train and write with them, and what is wrong
with such files is told in one line.

env PEER_PYTHON may name an interpreter that has tokenizers."""
import json
import os
import shutil
import subprocess
import sys

from ebbtest import ebb, main, refused, write

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "../golden/gpt2")
LINES = 10000

PEER = """
import sys
sys.path.insert(0, sys.argv[1])
from gpt2 import make_lines
from tokenizers import ByteLevelBPETokenizer
lines = make_lines(2, int(sys.argv[2]))
every = ["a" + chr(c) + "1." + chr(c) + "." for c in [*range(0x20, 0xd800), *range(0xe000, 0x33000), *range(0xe0000, 0xe0200)]]
open("fresh.txt", "wb").write("".join(line + "\\n" for line in lines).encode())
open("points.txt", "wb").write("".join(line + "\\n" for line in every).encode())
tokenizer = ByteLevelBPETokenizer()
tokenizer.train_from_iterator(lines[::2], vocab_size=3000, show_progress=False)
tokenizer.save_model(".")
for name, of in [("fresh", lines), ("points", every)]:
    found = tokenizer.encode_batch(of)
    open(name + ".ids", "w").write("".join(" ".join(map(str, f.ids)) + "\\n" for f in found))
    open(name + ".pieces", "w").write("".join(" ".join(f.tokens) + "\\n" for f in found))
"""


def read(path):
    with open(path, "rb") as file:
        return file.read()


def copy(name="gpt2"):
    shutil.rmtree(name, ignore_errors=True)
    shutil.copytree(GOLDEN, name)
    return name


def test_golden_numbers():
    done = ebb("data", "codes", "apply", GOLDEN, os.path.join(GOLDEN, "text.txt"), "ids", "--ids", "--json").json()
    assert read("ids") == read(os.path.join(GOLDEN, "ids.txt"))
    assert done["pieces"] == len(read("ids").split())
    ebb("data", "codes", "apply", GOLDEN, os.path.join(GOLDEN, "text.txt"), "pieces")
    with open(os.path.join(GOLDEN, "vocab.json"), encoding="utf-8") as file:
        numbers = json.load(file)
    for ids, pieces in zip(read("ids").decode().splitlines(), read("pieces").decode().split("\n")):
        assert [numbers[piece] for piece in pieces.split()] == [int(i) for i in ids.split()]


def test_a_reference_gives_the_same():
    for python in [sys.executable, os.environ.get("PEER_PYTHON", "")]:
        if python and subprocess.run([python, "-c", "import tokenizers"], capture_output=True, check=False).returncode == 0:
            break
    else:
        print("SKIPPED a_reference_gives_the_same: there is no `tokenizers`; set PEER_PYTHON to an interpreter with it", file=sys.stderr)
        return
    subprocess.run([python, "-c", PEER, os.path.join(HERE, "../../tools/golden"), str(LINES)], check=True)
    for name in ["fresh", "points"]:
        ebb("data", "codes", "apply", ".", name + ".txt", "out", "--ids")
        assert read("out") == read(name + ".ids"), name
        ebb("data", "codes", "apply", ".", name + ".txt", "out")
        assert read("out") == read(name + ".pieces"), name


def test_lines():
    for text, lines in [("a b\r\nc\n", 2), ("a\n\n\nb", 4), ("a\r", 1), ("\n", 1), (" \n  \n", 2)]:
        write("t", text)
        ebb("data", "codes", "apply", GOLDEN, "t", "o")
        assert read("o").count(b"\n") == lines, (text, read("o"))
    write("t", b"\xff\xfe x \xc3(\n")  # any bytes but NUL
    ebb("data", "codes", "apply", GOLDEN, "t", "o", "--ids")
    write("t", b"a" * 65536 + b"\n")
    refused(3, "data", "codes", "apply", GOLDEN, "t", "o", says="t:1")
    write("t", b"a\0b\n")
    refused(3, "data", "codes", "apply", GOLDEN, "t", "o", says="NUL")


def test_models():
    copy()
    text = "  two  spaces stay, don't they?\nÄpfel und 1234 Birnen\n" * 20
    write("t", text)
    small = ["--hidden", "8", "--layers", "1", "--batch", "2", "--bptt", "8", "--epochs", "1", "--memory", "64M", "--quiet", "--threads", "1"]
    ebb("train", "lm", "--train", "t", "--valid", "t", "--tokens", "bpe", "--codes", "gpt2", "--out", "counted", *small)
    assert read("counted/codes.txt").startswith(b"#version: bytes\n")
    assert read("counted/codes.txt").splitlines()[1:] == read("gpt2/merges.txt").splitlines()[1:]
    ebb("train", "lm", "--train", "t", "--tokens", "bpe", "--vocab", "gpt2", "--out", "whole", *small)
    with open("gpt2/vocab.json", encoding="utf-8") as file:
        pieces = len(json.load(file))
    assert len(read("whole/vocab.txt").splitlines()) == pieces + 2
    wrote = ebb("generate", "counted", "--length", "30", "--prompt", "  two  spaces", "--quiet").out
    assert wrote.startswith("  two  spaces"), wrote
    ebb("eval", "lm", "counted", "t")
    again = ["2" if option == "1" and small[i - 1] == "--epochs" else option for i, option in enumerate(small)]
    ebb("train", "lm", "--train", "t", "--valid", "t", "--tokens", "bpe", "--codes", "gpt2", "--out", "counted", *again)
    # Another run takes them, and its hash knows that codes differ.
    ebb("train", "lm", "--train", "t", "--tokens", "bpe", "--codes", "counted", "--out", "third", *small)
    assert read("third/codes.txt") == read("counted/codes.txt")
    write("words", "#version: 0.2\na b\n")
    refused(2, "train", "lm", "--train", "t", "--tokens", "bpe", "--codes", "words", "--init", "counted/best.safetensors", "--out", "x", *small, says="another vocabulary")


def test_translation():
    copy()
    ebb("data", "dates", "src", "tgt", "--lines", "200")
    ebb("train", "nmt", "--train", "src", "tgt", "--valid", "src", "tgt", "--valid-metric", "bleu", "--tokens", "bpe", "--codes", "gpt2", "--hidden", "16",
        "--batch", "8", "--epochs", "1", "--memory", "64M", "--out", "run", "--quiet", "--threads", "1")
    with open("src", "rb") as source:
        assert ebb("decode", "run", "--quiet", stdin=source).out.count("\n") == 200


def damaged(name, text, status, says, merges=None):
    copy("bad")
    write("bad/vocab.json", text if text is not None else read(os.path.join(GOLDEN, "vocab.json")))
    if merges is not None:
        write("bad/merges.txt", merges)
    refused(status, "data", "codes", "apply", "bad", "t", "mine", "--ids", says=says)
    assert read("mine") == b"precious", name


def test_damaged_files():
    write("t", "some text\n")
    write("mine", "precious")
    whole = read(os.path.join(GOLDEN, "vocab.json")).decode()
    merges = read(os.path.join(GOLDEN, "merges.txt")).decode()
    damaged("empty", "{}", 3, "holds no entry")
    damaged("list", "[1, 2]", 3, "no JSON object")
    damaged("cut", whole[:len(whole) // 2], 3, "vocab.json:1")
    damaged("nothing", "", 3, "vocab.json")
    damaged("behind", whole + "x", 3, "behind the object")
    damaged("name", whole.replace('"!"', "!", 1), 3, "a name in quotes is missing")
    damaged("number", whole.replace(":1,", ":one,", 1), 3, "without a whole number")
    damaged("negative", whole.replace(":1,", ":-1,", 1), 3, "without a whole number")
    damaged("real", whole.replace(":1,", ":1.5,", 1), 3, "neither a comma")
    damaged("huge", whole.replace(":1,", ":99999999999999999999,", 1), 3, "a number above")
    damaged("gap", whole.replace(":1,", ":9999,", 1), 3, "a gap")
    damaged("twice", whole.replace(":1,", ":2,", 1), 3, "two entries have one number")
    damaged("escape", whole.replace('"!"', '"\\q"', 1), 3, "an unknown escape")
    damaged("half", whole.replace('"!"', '"\\ud800"', 1), 3, "an unknown escape")
    damaged("same", whole.replace('"!"', '"A"', 1), 3, "two entries are one piece")
    damaged("byte", whole.replace('"!"', '"!!!!!!"', 1), 3, "byte 0x21")
    damaged("unknown", None, 3, "merges.txt:3", merges="#version: 0.2\na b\nxyz d\n")
    damaged("not there", None, 3, "pair 1 makes a piece that vocab.json lacks", merges="#version: 0.2\n! ~\n")
    damaged("letter", None, 3, "stands for no byte", merges="#version: 0.2\n漢 b\n")
    damaged("one", None, 3, "one piece where two", merges="#version: 0.2\nab\n")
    damaged("no pair", None, 3, "holds no pair", merges="#version: 0.2\n")
    damaged("pairs", None, 3, "more than 1048576 pairs", merges="! !\n" * (1 << 20) + "! !\n")
    damaged("entries", "{" + ",".join(f'"{i}":{i}' for i in range((1 << 21) + 1)) + "}", 3, "above 2097151")
    with open("bad/vocab.json", "w", encoding="utf-8") as file:
        file.write("{" + ",".join(f'"{i}":{i % 1000}' for i in range(3000000)) + "}")
    refused(3, "data", "codes", "apply", "bad", "t", "mine", says="more than 2097152 entries")
    with open("bad/vocab.json", "wb") as file:
        file.truncate(10 ** 9)
    refused(3, "data", "codes", "apply", "bad", "t", "mine", says="are no vocabulary")
    refused(2, "data", "codes", "apply", "words", "t", "mine", "--ids", says="--ids needs numbers")
    assert read("mine") == b"precious"


main(globals())
