#!/usr/bin/env python3
"""Compares `ebb eval bleu` and `ebb eval chrf` with the sacrebleu command on the same files: random
corpora made by tools/golden/bleu.py with a seed of its own, and larger ones.

Needs sacrebleu; env PEER_PYTHON may name an interpreter that has it. Without: exit code 77. What
does not need it is in test_score.py and tests/golden/test_bleu.c."""
import json
import os
import random
import subprocess
import sys

SKIPPED = 77

try:
    import sacrebleu
except ImportError as missing:
    peer = os.environ.get("PEER_PYTHON")
    if peer and not os.environ.get("EBB_PEER_TRIED"):
        os.execve(peer, [peer, *sys.argv], {**os.environ, "EBB_PEER_TRIED": "1"})
    print(f"SKIPPED test_sacrebleu.py: {missing}; set PEER_PYTHON to an interpreter with sacrebleu", file=sys.stderr)
    sys.exit(SKIPPED)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/golden"))
import bleu as maker  # noqa: E402

from ebbtest import ebb, main, write  # noqa: E402

RANDOM = 25


def theirs(refs, *options):
    """What the sacrebleu command prints, with 12 decimals."""
    done = subprocess.run([sys.executable, "-m", "sacrebleu", *refs, "-i", "hyp", "-w", "12", "--force", *options], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def compare(hyp, *texts):
    write("hyp", hyp)
    refs = [f"ref{n}" for n in range(len(texts))]
    for path, text in zip(refs, texts, strict=True):
        write(path, text)
    for tok in ["13a", "none"]:
        ours, peer = ebb("eval", "bleu", "hyp", *refs, "--tok", tok, "--json").json(), theirs(refs, "-m", "bleu", "--tokenize", tok)
        assert abs(ours["bleu"] - peer["score"]) < 1e-9, (tok, ours, peer, hyp, texts)
        assert ours["signature"].split("|version")[0] == peer["signature"].split("|version")[0]
        line = ebb("eval", "bleu", "hyp", *refs, "--tok", tok).out.rstrip("\n")
        assert line.split(" = ", 1)[1].split(" ", 1)[1] == peer["verbose_score"], (line, peer)
    ours, peer = ebb("eval", "chrf", "hyp", *refs, "--json").json(), theirs(refs, "-m", "chrf")
    assert abs(ours["chrf"] - peer["score"]) < 1e-9, (ours, peer, hyp, texts)
    assert ours["signature"].split("|version")[0] == peer["signature"].split("|version")[0]


def test_small_corpora():
    dice = random.Random(12345)
    for _ in range(RANDOM):
        compare(*maker.corpus(dice))


def test_several_references():
    dice = random.Random(77)
    for _ in range(RANDOM):
        hyp, refs = maker.several(dice)
        compare(hyp, *refs)


def test_larger_corpora():
    dice = random.Random(99)
    for size in [50, 400]:
        made = [maker.corpus(dice) for _ in range(size)]
        whole = [text if text.endswith("\n") else text + "\n" for pair in made for text in pair]
        compare("".join(whole[0::2]), "".join(whole[1::2]))


if __name__ == "__main__":
    main(globals())
