"""A kind of model that the command knows only from tests/more: whatever is done with models is done
with it, though nothing names it."""
import json
import os
import signal
import subprocess
import time

import ebbtest
from ebbtest import digest, ebb, main, refused

ebbtest.EBB = os.path.join(os.path.dirname(ebbtest.EBB), "tests/cli/ebb_more_kinds")
RUN = ["--points", "40", "--batch", "8", "--hidden", "5", "--threads", "1"]


def test_help_has_its_options():
    assert "ebb train disc [options]" in ebb("--help").out
    said = ebb("help", "train", "disc").out
    assert "--radius X" in said and "(default 0.7)" in said and "--lr-patience" in said and "--vocab" not in said
    refused(2, "train", "disc", "--vocab", "5", says="takes no --vocab")
    refused(2, "train", "disc", "--radius", "2", says="out of range")
    refused(2, "train", "disk", says="did you mean disc? There are lm, nmt, cnn or disc")


def test_it_is_planned_and_timed():
    plan = ebb("plan", "disc", "--hidden", "50", "--json").json()
    assert 0 < plan["least_bytes"] <= plan["peak_bytes"]
    bench = ebb("bench", "disc", "--steps", "2", "--json").json()
    assert bench["planned_peak_bytes"] == bench["measured_peak_bytes"] and bench["points_per_second"] > 0
    ebb("plan", "disc", "--memory", "1000", expect=4)


def test_it_trains_by_its_own_metric():
    result = ebb("train", "disc", *RUN, "--epochs", "30", "--out", "run", "--json").json()
    assert 0.5 < result["best_accuracy"] <= 1 and 0 < result["best_confidence"] < 1 and "valid_perplexity" not in result
    lines = [json.loads(line) for line in open("run/metrics.jsonl")]
    assert max(line["valid_accuracy"] for line in lines if "valid_accuracy" in line) == result["best_accuracy"]
    assert "model = disc" in open("run/config").read() and "radius = 0.7" in open("run/config").read()
    refused(2, "train", "disc", *RUN, "--epochs", "31", "--radius", "0.5", "--out", "run", says="'radius = 0.7'")
    refused(5, "generate", "run", says="is a disc, not a language model")


def test_killed_and_resumed_it_ends_with_the_same_bits():
    train = ["train", "disc", *RUN, "--epochs", "40", "--save-every", "3", "--out"]
    ebb(*train, "whole", "--quiet")
    process = subprocess.Popen([ebbtest.EBB, *train, "broken", "--quiet"])
    while not os.path.isdir("broken") or not any(name.endswith(".json") for name in os.listdir("broken")):
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert ebb(*train, "broken", "--json").json()["resumed"]
    state = [name for name in os.listdir("whole") if name.endswith(".state.safetensors")]
    for name in ["best.safetensors", "last.safetensors", max(state)]:
        assert digest("whole/" + name) == digest("broken/" + name), name
    assert b"hidden.mean" in open("whole/last.safetensors", "rb").read()  # a buffer is part of the model


def test_it_is_reported():
    ebb("train", "disc", *RUN, "--epochs", "5", "--out", "run", "--quiet")
    ebb("report", "run", "page.html")
    page = open("page.html").read()
    assert "<h1>Disc <code>run" in page and "radius" in page
    assert "Loss while training" in page and "erplexity" not in page and "points a second" in page
    assert "accuracy, the best" in page and "confidence, the best" in page


main(globals())
