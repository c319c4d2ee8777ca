#!/usr/bin/env python3
"""`ebb decode DIR DIR...`: the mean of the probabilities of several runs. A run with itself translates as it does alone; of two, scores
are those of the mean distribution; bytes are planned; runs that do not fit together are refused in a line."""
import math
import os
import re

from ebbtest import ebb, main, refused, write

SMALL = ["--hidden", "32", "--batch", "16", "--threads", "1", "--optimizer", "adam", "--lr", "0.02", "--steps", "500", "--quiet"]
FORMS = {"plain": [], "all": ["--enc-layers", "2", "--dec-layers", "2", "--bidirectional", "--init-decoder", "--feed"], "gru": ["--cell", "gru", "--attention", "dot"]}


def train(out, *more, seed=1):
    if not os.path.exists("src"):
        ebb("data", "dates", "src", "tgt", "--lines", "400")
    ebb("train", "nmt", "--train", "src", "tgt", "--out", out, "--seed", seed, *SMALL, *more)
    return out


def decode(*args):
    with open("some", "rb") as source:
        return ebb("decode", *args, "--quiet", stdin=source).out


def some(n=40):
    with open("src", "rb") as source:
        write("some", b"".join(source.readlines()[:n]))


def test_a_run_with_itself():
    for name, form in FORMS.items():
        train(name, *form)
        some()
        alone = decode(name)
        assert len(set(alone.splitlines())) > 5, alone
        assert decode(name, name) == alone, name
        assert decode(name, name, name, "--batch", "3", "--memory", "64M") == alone, name


def scores(text):
    """By line: translation and log probability."""
    rows = [re.split(r" \|\|\| ?", line) for line in text.splitlines()]
    return {(int(number), words): float(log) for number, words, log, _ in rows}


def test_the_mean_of_two():
    train("a")
    train("b", "--vocab", "a", seed=2)
    some()
    both = decode("a", "b")
    assert both == decode("b", "a")
    with_scores = decode("a", "b", "--nbest", "2")
    assert with_scores != decode("a", "--nbest", "2") and with_scores != decode("b", "--nbest", "2")
    wide = ["--nbest", "8", "--beam", "8"]
    mean, a, b = (scores(decode(*runs, *wide)) for runs in [("a", "b"), ("a",), ("b",)])
    common = [key for key in mean if key in a and key in b]
    assert len(common) > 20, len(common)
    for key in common:
        # By the inequality of means the mean's log probability is at least the mean of the logarithms.
        assert mean[key] >= (a[key] + b[key]) / 2 - 1e-3, (key, mean[key], a[key], b[key])
        assert mean[key] <= 1e-6
    # The empty translation is one step, of which all is known: runs that know nothing yet offer it.
    train("c", "--vocab", "a", "--steps", "1", seed=3)
    train("d", "--vocab", "a", "--steps", "1", seed=4)
    wide = ["--nbest", "4", "--beam", "64", "--length-penalty", "0"]
    mean, a, b = (scores(decode(*runs, *wide)) for runs in [("c", "d"), ("c",), ("d",)])
    empty = [key for key in mean if key[1] == "" and key in a and key in b]
    assert len(empty) > 20, len(empty)
    for key in empty:
        assert abs(math.exp(mean[key]) - (math.exp(a[key]) + math.exp(b[key])) / 2) < 1e-5, key


def test_bytes_are_planned():
    train("a")
    some()
    sizes = []
    for runs in [("a",), ("a", "a"), ("a", "a", "a", "a")]:
        with open("some", "rb") as source:
            told = ebb("decode", *runs, "--verbose", "--batch", "4", stdin=source).err
        most, planned = map(int, re.search(r"most memory (\d+) bytes, planned (\d+)", told).groups())
        assert most <= planned < most * 1.05, told
        sizes.append(planned)
    assert sizes[0] < sizes[1] < sizes[2]
    with open("some", "rb") as source:
        assert ebb("decode", "a", "a", "--memory", sizes[1], "--batch", "4", stdin=source).out == decode("a")
        source.seek(0)
        ebb("decode", "a", "a", "--memory", sizes[0], "--batch", "4", stdin=source, expect=4)


def test_runs_that_do_not_fit():
    train("a")
    some()
    train("large", "--hidden", "40", "--vocab", "a")
    train("residual", "--dec-layers", "2", "--residual", "--vocab", "a")
    train("plain", "--dec-layers", "2", "--vocab", "a")
    write("other.src", "".join(open("src").read().upper()))
    ebb("train", "nmt", "--train", "other.src", "tgt", "--out", "words", *SMALL)
    refused(5, "decode", "a", "large", says=["large", "--hidden"])
    refused(5, "decode", "plain", "residual", says="--residual")
    refused(5, "decode", "a", "words", says="another vocabulary")
    refused(5, "decode", "a", "nothing", says="nothing")
    refused(2, "decode", "a", "a", "--weights", "a/best.safetensors", says="is one file")
    refused(2, "decode", *["a"] * 17, says="more than 16")
    train("tuned", "--init", "a")  # runs that began as others fit
    train("tuned2", "--init", "tuned")
    assert decode("a", "tuned", "tuned2").count("\n") == 40
    ebb("data", "grammar", "text", "--lines", "50")
    ebb("train", "lm", "--train", "text", "--hidden", "8", "--layers", "1", "--steps", "2", "--out", "lm", "--quiet")
    refused(5, "decode", "a", "lm", says="language model")


main(globals())
