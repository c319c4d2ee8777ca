"""Batches of sentences: language models by sentence, and batches counted in tokens, of both kinds."""
import json
import os
import random

from ebbtest import ebb, main, metrics, refused, text, TINY, weights, write

LM = ["--layers", "1", "--hidden", "8", "--threads", "1", "--by-sentence"]
NMT = ["--hidden", "8", "--threads", "1"]


def lines(path, count=80, longest=12, seed=1):
    """Sentences of many lengths, with a little structure."""
    dice = random.Random(seed)
    rows = [[(i * j + dice.randrange(2)) % 12 for j in range(dice.randint(1, longest))] for i in range(count)]
    return write(path, "".join(" ".join("w%d" % w for w in row) + "\n" for row in rows))


def train(*args):
    """A run of two epochs over t and v."""
    return ebb("train", "lm", "--train", "t", "--valid", "v", "--epochs", "2", *args)


def test_a_language_model_by_sentence():
    lines("t")
    lines("v", 15, seed=2)
    shown = train(*LM, "--batch", "6", "--out", "r")
    assert "batch 6 x 13 by sentence" in shown.err and shown.out == ""
    result = train(*LM, "--batch", "6", "--out", "s", "--json", "--quiet", "--save-every", "3").json()
    assert result["planned_peak_bytes"] == result["measured_peak_bytes"] and weights("r") == weights("s")
    assert not [name for name in os.listdir("r") if name.endswith((".index", ".new", ".tmp"))]
    found = ebb("eval", "lm", "r", "v", "--json").json()
    assert abs(found["token_perplexity"] - result["best_perplexity"]) < 1e-9 and found["sentences"] == 15 and found["left_out"] == 0
    with open("v", encoding="utf8") as file:
        assert found["tokens"] == sum(len(line.split()) + 1 for line in file)
    other = ebb("eval", "lm", "r", "v", "--json", "--batch", "1").json()
    assert abs(other["loss"] - found["loss"]) < 1e-6
    assert "sentences         15 (0 more left out)" in ebb("eval", "lm", "r", "v").out
    assert len(ebb("generate", "r", "--length", "20").out.split()) > 0
    with open("r/config", encoding="utf8") as file:
        assert {"by-sentence = true\n", "bucket = auto\n", "shapes = 8\n", "max-len = 100\n"} <= set(file)


def test_stopped_and_gone_on_with():
    lines("t")
    lines("v", 15, seed=2)
    for how in [["--batch", "6"], ["--tokens", "40"]]:
        whole, parts = "whole" + how[1], "parts" + how[1]
        train(*LM, *how, "--dropout", "0.2", "--out", whole)
        for steps in ["4", "9", "10"]:
            ebb("train", "lm", "--train", "t", "--valid", "v", *LM, *how, "--dropout", "0.2", "--out", parts, "--steps", steps)
        train(*LM, *how, "--dropout", "0.2", "--out", parts)
        assert weights(parts)[0] == weights(whole)[0]
    refused(2, "train", "lm", "--train", "t", "--valid", "v", *LM, "--batch", "6", "--dropout", "0.2", "--out", "whole6", "--shapes", "3",
            "--epochs", "3", says="shapes = 8")
    refused(2, "train", "lm", "--train", "t", "--valid", "v", *LM, "--tokens", "41", "--dropout", "0.2", "--out", "whole40", "--epochs", "3",
            says="batch-tokens = 40")


def test_what_a_stream_has_not():
    text("t")
    for option in [["--bucket", "none"], ["--shapes", "3"], ["--static", "4,8"], ["--max-len", "9"], ["--tokens", "40"]]:
        refused(2, "train", "lm", "--train", "t", *TINY, *option, says="unless --by-sentence is given")
        refused(2, "plan", "lm", *TINY, *option, says="unless --by-sentence is given")
    refused(2, "train", "nmt", "--train", "t", "t", "--by-sentence", says="takes no --by-sentence")
    # Settings of a run that reads a stream name none of these.
    ebb("train", "lm", "--train", "t", *TINY, "--steps", "2", "--out", "r")
    with open("r/config", encoding="utf8") as file:
        keys = {line.split(" = ")[0] for line in file}
    assert not keys & {"by-sentence", "bucket", "shapes", "static", "max-len", "batch-tokens"} and "bptt" in keys
    ebb("train", "lm", "--config", "r/config", "--steps", "4", "--out", "s")


def test_nothing_is_lost_silently():
    lines("t", 40)
    with open("t", "a", encoding="utf8") as file:
        file.write("\n" + "w1 " * 30 + "\n\n" + "w2\n")
    shown = ebb("train", "lm", "--train", "t", *LM, "--batch", "4", "--max-len", "20", "--epochs", "1", "--out", "r").err
    assert "t: 1 of 44 lines have more than 20 tokens and are left out (--max-len); the first is line 42" in shown
    assert "t: 2 of 44 lines are empty and are left out; the first is line 41" in shown
    found = ebb("eval", "lm", "r", "t", "--json")
    assert found.json()["sentences"] == 41 and found.json()["left_out"] == 3 and "left out" in found.err
    write("empty", "")
    refused(3, "train", "lm", "--train", "empty", *LM, "--out", "s", says="empty")
    write("blank", "\n\n")
    refused(3, "train", "lm", "--train", "blank", *LM, "--out", "s", says="blank")
    write("long", "a b c d\n")
    refused(3, "train", "lm", "--train", "long", *LM, "--max-len", "3", "--out", "s", says="none of the 1 lines can be used")
    ebb("train", "lm", "--train", "long", *LM, "--shapes", "32", "--epochs", "1", "--out", "s")


def test_every_strategy_and_form_of_text():
    lines("t", 60)
    lines("v", 9, seed=2)
    losses = set()
    for bucket in ["none", "static", "greedy", "percentile", "width", "optimal", "auto"]:
        result = train(*LM, "--batch", "5", "--bucket", bucket, "--static", "5,9", "--shapes", "4", "--out", bucket, "--json", "--quiet").json()
        assert result["planned_peak_bytes"] == result["measured_peak_bytes"]
        losses.add(result["loss"])
    assert len(losses) >= 3  # other shapes, other batches
    refused(2, "train", "lm", "--train", "t", *LM, "--bucket", "pool", "--out", "r", says="--bucket pool")
    for tokens in ["char", "byte"]:
        run = train(*LM, "--tokens", tokens, "--batch-tokens", "200", "--out", tokens, "--json", "--quiet").json()
        assert run["valid_perplexity"] == run["best_perplexity"] < 60
    refused(2, "plan", "lm", *LM, "--tokens", "40", "--batch", "3", says="only one can hold")


def test_batches_by_tokens():
    lines("s")
    lines("t", seed=3)
    lines("v", 15, seed=2)
    # As many sentences of a shape as have no more tokens: a run over shapes of many sizes is what was planned.
    pair = ["train", "nmt", *NMT, "--train", "s", "t", "--tokens", "45", "--max-len", "12", "--epochs", "2"]
    result = ebb(*pair, "--valid", "v", "v", "--samples", "2", "--out", "r", "--json", "--quiet").json()
    assert result["planned_peak_bytes"] == result["measured_peak_bytes"] and result["batch"] == 0
    with open("r/config", encoding="utf8") as file:
        assert {"batch-tokens = 45\n", "batch = auto\n"} <= set(file)
    found = ebb("eval", "nmt", "r", "v", "v", "--json").json()
    assert abs(found["token_perplexity"] - result["best_perplexity"]) < 1e-9
    assert abs(ebb("eval", "nmt", "r", "v", "v", "--batch", "3", "--json").json()["loss"] - found["loss"]) < 1e-6
    with open("v", "rb") as file:
        assert len(ebb("decode", "r", "--quiet", stdin=file).out.splitlines()) == 15
    small = json.loads(ebb("plan", *pair[1:], "--json").out)["least_bytes"]
    result = ebb(*pair, "--memory", small, "--out", "small", "--json", "--quiet").json()
    assert result["measured_peak_bytes"] == result["planned_peak_bytes"] <= small
    ebb(*pair, "--out", "large", "--quiet")
    assert weights("small")[0] == weights("large")[0] and metrics("small") == metrics("large")
    ebb("train", "nmt", "--config", "r/config", "--epochs", "1", "--out", "again")
    # Without a text, lengths come from the options.
    assert "batch 450 tokens x 35 by sentence" in ebb("plan", "lm", *LM, "--tokens", "450").out
    assert "batch 450 tokens x 30+30" in ebb("plan", "nmt", *NMT, "--tokens", "450").out
    refused(2, "train", "nmt", *NMT, "--train", "s", "t", "--tokens", "0", says="out of range")
    # Fewer tokens than a sentence has: one sentence at a time.
    assert train(*LM, "--tokens", "1", "--out", "one", "--json", "--quiet").json()["steps"] == 2 * 80


def test_shards_divide_batches_by_tokens():
    lines("t")
    lines("v", 15, seed=2)
    result = train(*LM, "--tokens", "60", "--shards", "3", "--out", "r", "--json", "--quiet").json()
    assert result["planned_peak_bytes"] == result["measured_peak_bytes"]
    assert ebb("eval", "lm", "r", "v", "--json").json()["sentences"] == 15


def test_the_batch_that_fits():
    lines("t")
    result = ebb("train", "lm", "--train", "t", *LM, "--batch", "auto", "--memory", "2M", "--epochs", "1", "--out", "r", "--json").json()
    assert 1 <= result["batch"] <= 80 and result["measured_peak_bytes"] <= 2 << 20


if __name__ == "__main__":
    main(globals())
