#!/usr/bin/env python3
"""`--average`: an exponential average of the weights, beside them. It is what the formula makes of the
weights of every step, takes the bytes that were planned, is validated and stored, and a run that was
broken goes on with the weights themselves: the same bits whatever the budget, the threads, the breaks."""
import glob
import json
import math
import random
import struct

from ebbtest import TINY, ebb, main, refused, write

DECAY = 0.8


def read(path):
    with open(path, "rb") as file:
        return file.read()


def tensors(path):
    """Name to list of numbers."""
    data = read(path)
    n = int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            found[name] = struct.unpack(f"<{(end - begin) // 4}f", data[8 + n + begin:8 + n + end])
    return found


def text(path, lines=40, seed=1):
    dice = random.Random(seed)
    return write(path, "".join(" ".join(dice.choice("abcdefgh") for _ in range(dice.randint(1, 9))) + "\n" for _ in range(lines)))


def options(*more):
    return ["train", "lm", "--train", text("t"), "--valid", text("v", 10, 2), *TINY, "--optimizer", "adam", "--lr", "0.05", "--steps", "12",
            "--tune", "off", "--quiet", *more]


def test_is_the_formula():
    ebb(*options("--save-every", "1", "--keep", "20", "--out", "plain"))
    done = ebb(*options("--average", DECAY, "--out", "mean", "--json")).json()
    assert done["planned_peak_bytes"] == done["measured_peak_bytes"]
    mean = None
    for step in range(1, 13):
        weights = tensors(f"plain/step-{step}.safetensors")
        share = max(1 - DECAY, 10 / (step + 9))
        mean = weights if mean is None else {k: [m + share * (w - m) for m, w in zip(mean[k], weights[k])] for k in weights}
    found = tensors("mean/last.safetensors")
    assert set(found) == set(mean)
    for name, numbers in found.items():
        assert all(abs(a - b) < 1e-5 for a, b in zip(numbers, mean[name])), name
    # Weights themselves are as without: they wait in the state, where averages are while a step runs.
    state = tensors(sorted(glob.glob("mean/ckpt-*.state.safetensors"))[-1])
    last = tensors("plain/last.safetensors")
    assert last != found and all(state["average." + name] == last[name] for name in last)
    # What is validated is what is stored.
    lines = [json.loads(line) for line in read("mean/metrics.jsonl").splitlines()]
    valid = [line["valid_perplexity"] for line in lines if "valid_perplexity" in line]
    scored = ebb("eval", "lm", "mean", "v", "--weights", "last", "--json").json()
    assert math.isclose(scored["token_perplexity"], valid[-1], rel_tol=1e-9)


def test_same_bits():
    more = ["--average", DECAY, "--valid-every", "5"]
    wide = ebb(*options(*more, "--threads", "2", "--out", "wide", "--json")).json()
    least = ebb("plan", *[o for o in options(*more)[1:]], "--threads", "1", "--json").json()["least_bytes"]
    narrow = ebb(*options(*more, "--memory", least, "--out", "narrow", "--json")).json()
    assert narrow["measured_peak_bytes"] <= least <= wide["measured_peak_bytes"]
    for steps in [1, 4, 5, 9, 12]:
        ebb(*options(*more, "--steps", steps, "--out", "parts"))
    for name in ["last", "best"]:
        assert read(f"wide/{name}.safetensors") == read(f"narrow/{name}.safetensors")
    assert read("wide/last.safetensors") == read("parts/last.safetensors")
    for out in ["narrow", "parts"]:
        assert read("wide/ckpt-12.state.safetensors") == read(out + "/ckpt-12.state.safetensors")
    # As many bytes more as the weights have.
    plain, averaged = [ebb("plan", *options(*o)[1:], "--json").json()["bytes_by_kind"] for o in [[], ["--average", DECAY]]]
    assert averaged["optimizer"] - plain["optimizer"] == plain["weights"] == averaged["weights"]


def test_translation():
    source = text("s", 30, 3)
    run = ["train", "nmt", "--train", source, source, "--valid", source, source, "--hidden", "8", "--batch", "4", "--epochs", "2", "--threads", "1",
           "--valid-metric", "bleu", "--tune", "off", "--quiet", "--average", "0.9"]
    ebb(*run, "--out", "whole")
    ebb(*run, "--steps", "7", "--out", "parts")
    ebb(*run, "--out", "parts")
    assert read("whole/last.safetensors") == read("parts/last.safetensors")
    with open(source, "rb") as lines:
        assert ebb("decode", "whole", stdin=lines).out.count("\n") == 30


def test_refused():
    ebb(*options("--out", "plain"))
    assert b"average" not in read("plain/config")  # runs of before it was there go on
    refused(2, *options("--average", "1", "--out", "x"), says="average")
    ebb(*options("--average", "0.9", "--out", "mean"))
    refused(2, *options("--steps", "14", "--average", "0.8", "--out", "mean"), says="average")


if __name__ == "__main__":
    main(globals())
