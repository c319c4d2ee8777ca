"""Batches of sentences: language models by sentence, and batches counted in tokens, of both kinds."""
import collections
import json
import os
import pty
import random
import re
import signal
import subprocess
import time

from ebbtest import EBB, ebb, main, metrics, refused, text, TINY, weights, write

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


def test_long_lines_can_be_split():
    with open(lines("t", 60, 40), encoding="utf8") as file:
        tokens = [len(line.split()) + 1 for line in file]
    long = sum(n > 9 for n in tokens)
    args = ["--train", "t", "--valid", "t", *LM, "--max-len", "8", "--batch", "6", "--epochs", "2", "--split-long"]
    shown = ebb("train", "lm", *args, "--out", "whole")
    assert f"t: {long} of 60 lines have more than 8 tokens and are split" in shown.err and "left out" not in shown.err
    found = ebb("eval", "lm", "whole", "t", "--json").json()
    assert found["tokens"] == sum(tokens) == found["words"] and found["left_out"] == 0
    assert found["sentences"] == sum(-(-n // 9) for n in tokens)
    for steps in ["3", "20"]:
        ebb("train", "lm", *args, "--out", "parts", "--steps", steps, "--quiet")
    ebb("train", "lm", *args, "--out", "parts", "--quiet")
    assert weights("parts")[0] == weights("whole")[0]
    assert ebb("train", "lm", "--config", "whole/config", "--json", "--quiet").json()["already_done"]
    refused(2, "train", "lm", *args[:-1], "--out", "whole", "--quiet", says="split-long")
    for more in [["--batch-tokens", "45"], ["--bucket", "pool"], ["--batch", "auto", "--memory", "2M"], ["--max-len", "1"], ["--tokens", "char"], ["--tokens", "byte"]]:
        by_tokens = [a for a in args if a not in ("--batch", "6")] if more == ["--batch-tokens", "45"] else args
        ebb("train", "lm", *by_tokens, *more, "--out", "other", "--fresh", "--quiet")
        assert ebb("eval", "lm", "other", "t", "--json").json()["left_out"] == 0
    plan = ebb("data", "plan", "--lm", "t", *LM[:-1], "--max-len", "8", "--split-long")
    assert f"split: {long} lines of more than 8 tokens" in plan.out and f"{found['sentences']} sentences" in plan.out
    refused(2, "train", "lm", "--train", "t", "--split-long", says="by-sentence")


def test_lines_that_are_short_are_not_split():
    lines("t")
    lines("v", 15, seed=2)
    train(*LM, "--batch", "6", "--out", "plain", "--quiet")
    train(*LM, "--batch", "6", "--split-long", "--out", "split", "--quiet")
    assert weights("plain") == weights("split") and metrics("plain") == metrics("split")
    with open("plain/config", encoding="utf8") as file:
        assert "split-long" not in file.read()


def test_stopped_and_gone_on_with():
    lines("t")
    lines("v", 15, seed=2)
    for how in [["--batch", "6"], ["--batch-tokens", "40"], ["--batch", "5", "--bucket", "pool"]]:
        whole, parts = "whole" + how[1], "parts" + how[1]
        train(*LM, *how, "--dropout", "0.2", "--out", whole)
        for steps in ["4", "9", "10"]:
            ebb("train", "lm", "--train", "t", "--valid", "v", *LM, *how, "--dropout", "0.2", "--out", parts, "--steps", steps)
        train(*LM, *how, "--dropout", "0.2", "--out", parts)
        assert weights(parts)[0] == weights(whole)[0]
    refused(2, "train", "lm", "--train", "t", "--valid", "v", *LM, "--batch", "6", "--dropout", "0.2", "--out", "whole6", "--shapes", "3",
            "--epochs", "3", says="shapes = 8")
    refused(2, "train", "lm", "--train", "t", "--valid", "v", *LM, "--batch-tokens", "41", "--dropout", "0.2", "--out", "whole40", "--epochs", "3",
            says="batch-tokens = 40")


def test_what_a_stream_has_not():
    text("t")
    for option in [["--bucket", "none"], ["--shapes", "3"], ["--static", "4,8"], ["--max-len", "9"], ["--batch-tokens", "40"]]:
        refused(2, "train", "lm", "--train", "t", *TINY, *option, says="unless it reads by-sentence")
        refused(2, "plan", "lm", *TINY, *option, says="unless it reads by-sentence")
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
    for bucket in ["none", "static", "greedy", "percentile", "width", "optimal", "pool", "auto"]:
        result = train(*LM, "--batch", "5", "--bucket", bucket, "--static", "5,9", "--shapes", "4", "--out", bucket, "--json", "--quiet").json()
        assert result["planned_peak_bytes"] == result["measured_peak_bytes"]
        losses.add(result["loss"])
    assert len(losses) >= 3  # other shapes, other batches
    for tokens in ["char", "byte"]:
        run = train(*LM, "--tokens", tokens, "--batch-tokens", "200", "--out", tokens, "--json", "--quiet").json()
        assert run["valid_perplexity"] == run["best_perplexity"] < 60
        # So small that instructions outweigh what chunks save: keeping all is the only plan.
        shown = ebb("plan", "lm", "--train", "t", "--valid", "v", *LM, "--tokens", tokens, "--batch-tokens", "200", "--json").json()
        assert 0 < shown["least_bytes"] <= shown["peak_bytes"] <= shown["keep_all_bytes"]
        assert run["planned_peak_bytes"] == run["measured_peak_bytes"] == shown["peak_bytes"]
    refused(2, "plan", "lm", *LM, "--batch-tokens", "40", "--batch", "3", says="only one can hold")


def test_pools():
    # More than one pool of 100 batches: threads, budgets and stops, also between pools, change no bit.
    lines("s", 330)
    lines("t", 330, seed=3)
    lines("v", 15, seed=2)
    pair = ["train", "nmt", *NMT, "--train", "s", "t", "--valid", "v", "v", "--bucket", "pool", "--batch", "2", "--shapes", "5", "--dropout", "0.1"]
    whole = ebb(*pair, "--epochs", "2", "--out", "whole", "--json", "--quiet").json()
    assert whole["steps"] == 2 * 165 and whole["planned_peak_bytes"] == whole["measured_peak_bytes"]
    assert whole["buckets"]["strategy"] == "pool" and len(whole["buckets"]["shapes"]) <= 5
    for steps in ["37", "100", "101", "166"]:
        ebb(*pair, "--steps", steps, "--out", "parts")
    ebb(*pair, "--epochs", "2", "--threads", "2", "--memory", whole["planned_peak_bytes"] + 2**20, "--out", "parts")
    assert weights("parts")[0] == weights("whole")[0]
    plan = {s["name"]: s for s in ebb("data", "plan", "--nmt", "s", "t", *NMT, "--batch", "2", "--shapes", "5", "--json").json()["strategies"]}["pool"]
    assert plan["steps"] == 165 and plan["computed_share"] == whole["buckets"]["padded_share"] >= plan["padded_share"]
    assert sorted(plan["compiled"]) == sorted(shape[:2] for shape in whole["buckets"]["shapes"])
    refused(2, "train", "lm", "--train", "t", *LM, "--bucket", "pool", "--batch-tokens", "40", "--out", "r", says="--bucket pool")
    assert "buckets: pool" in ebb("train", "lm", "--train", "t", *LM, "--bucket", "pool", "--batch", "auto", "--epochs", "1", "--out", "r").err


def test_batches_by_tokens():
    lines("s")
    lines("t", seed=3)
    lines("v", 15, seed=2)
    # As many sentences of a shape as have no more tokens: a run over shapes of many sizes is what was planned.
    pair = ["train", "nmt", *NMT, "--train", "s", "t", "--batch-tokens", "45", "--max-len", "12", "--epochs", "2"]
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
    assert "batch 450 tokens x 35 by sentence" in ebb("plan", "lm", *LM, "--batch-tokens", "450").out
    assert "batch 450 tokens x 30+30" in ebb("plan", "nmt", *NMT, "--batch-tokens", "450").out
    refused(2, "train", "nmt", *NMT, "--train", "s", "t", "--batch-tokens", "0", says="out of range")
    # Fewer tokens than a sentence has: one sentence at a time.
    assert train(*LM, "--batch-tokens", "1", "--out", "one", "--json", "--quiet").json()["steps"] == 2 * 80


def test_tokens_are_planned_by_what_holds_the_bytes():
    """One long sentence makes a shape of one row. Plans must be those of the shape that holds the bytes; words/s are those of the text."""
    rng = random.Random(5)
    write("short", "".join(" ".join(f"w{rng.randrange(2000)}" for _ in range(7)) + "\n" for _ in range(500)) + "long " * 60 + "\n")
    sizes = ["plan", "lm", "--by-sentence", "--hidden", "16", "--embed", "16", "--threads", "1", "--tune", "off"]
    mixed = ebb(*sizes, "--train", "short", "--batch-tokens", "4000", "--json").json()
    alone = ebb(*sizes, "--vocab", "2001", "--batch-tokens", "4000", "--bptt", "8", "--json").json()
    assert mixed["least_bytes"] < 1.3 * alone["least_bytes"] < 0.5 * mixed["keep_all_bytes"]
    report = ebb(*sizes, "--train", "short", "--batch-tokens", "4000").out
    seconds, words = re.search(r"predicted +([\d.]+) s a step, ([\d.]+)k? words/s", report).groups()
    scale = 1000 if f"{words}k words/s" in report else 1
    # Nine batches at most, of 3561 words, not of 4000 tokens each.
    assert 500 < float(seconds) * float(words) * scale < 4000


def test_shards_divide_batches_by_tokens():
    lines("t")
    lines("v", 15, seed=2)
    result = train(*LM, "--batch-tokens", "60", "--shards", "3", "--out", "r", "--json", "--quiet").json()
    assert result["planned_peak_bytes"] == result["measured_peak_bytes"]
    assert ebb("eval", "lm", "r", "v", "--json").json()["sentences"] == 15


# ---- --batch auto: as many sentences of each shape as fit ----

def following(tokens):
    """What is tried after so many tokens: every number up to 128, then 64 to 128 of a power of two."""
    def apart(n):
        return 1 if n <= 128 else 2 * apart((n + 1) // 2)
    more = tokens + apart(tokens)
    return more + -more % apart(more)


def texts(count=160, longest=16):
    """Options of both kinds, of models that are more than their programs."""
    wide = ["--hidden", "32", "--threads", "1"]
    return {"lm": ["--layers", "1", *wide, "--by-sentence", "--train", lines("a", count, longest)],
            "nmt": [*wide, "--train", lines("a", count, longest), lines("b", count, longest, seed=3)]}


def sentences_of(shapes, options):
    """How many sentences are padded to each shape: the smallest that holds them."""
    files = options[options.index("--train") + 1:]
    sides = [[len(line.split()) + 1 for line in open(file, encoding="utf8")] for file in files]
    pairs = zip(*sides) if len(sides) == 2 else ((0, n) for n in sides[0])
    order = sorted(((s, t) for s, t, _ in shapes), key=lambda shape: (sum(shape), shape[1]))
    return collections.Counter(next(shape for shape in order if s <= shape[0] and t <= shape[1]) for s, t in pairs)


def test_as_many_as_fit_of_each_shape():
    for kind, options in texts().items():
        found = []
        for bucket, tokens in [("auto", 300), ("optimal", 90), ("optimal", 400)]:
            options_ = [*options, "--bucket", bucket, "--shapes", "3"]
            memory = ebb("plan", kind, *options_, "--batch-tokens", tokens, "--json").json()["least_bytes"]
            out = f"{kind}{tokens}"
            result = ebb("train", kind, *options_, "--batch", "auto", "--memory", memory, "--epochs", "1", "--out", out, "--json")
            run, n = result.json(), result.json()["batch_tokens"]
            assert run["planned_peak_bytes"] == run["measured_peak_bytes"] <= memory and run["batch"] == 0 and n >= 1
            # What is found is what the same number given as --batch-tokens is; the next number does not fit.
            assert ebb("plan", kind, *options_, "--batch-tokens", n, "--memory", memory, "--json").json()["peak_bytes"] == run["planned_peak_bytes"]
            ebb("plan", kind, *options_, "--batch-tokens", following(n), "--memory", memory, "--json", expect=4)
            ebb("train", kind, *options_, "--batch-tokens", n, "--epochs", "1", "--out", out + "t", "--quiet")
            assert weights(out) == weights(out + "t")
            shapes = run["buckets"]["shapes"]
            held = sentences_of(shapes, options)
            assert [rows for _, _, rows in shapes] == [min(max(1, n // max(source, target)), held[source, target]) for source, target, _ in shapes]
            first, last = ([f"{rows} x {source}+{target}" if source else f"{rows} x {target}" for source, target, rows in shapes][i] for i in (0, -1))
            assert f"batch {n} tokens fits in " in result.err and f": {first}" in result.err and last in result.err
            found.append(n)
        assert found[1] < found[2], found


def test_a_run_keeps_its_tokens():
    for kind, options in texts().items():
        options += ["--bucket", "width", "--shapes", "2"]
        memory = ebb("plan", kind, *options, "--batch-tokens", "70", "--json").json()["least_bytes"]
        command = ["train", kind, *options, "--batch", "auto", "--save-every", "4", "--json"]
        whole = ebb(*command, "--memory", memory, "--steps", "20", "--out", kind).json()
        n = whole["batch_tokens"]
        ebb(*command, "--memory", memory, "--steps", "7", "--out", kind + "2")
        result = ebb(*command, "--memory", "1G", "--steps", "20", "--out", kind + "2")
        assert f"batch {n} tokens, as the run in {kind}2 was started with" in result.err
        assert result.json()["batch_tokens"] == n and result.json()["buckets"] == whole["buckets"] and result.json()["resumed"]
        assert weights(kind) == weights(kind + "2")
        with open(kind + "2/config", encoding="utf8") as file:
            assert {f"batch-tokens = {n}\n", "batch = auto\n"} <= set(file)
        refused(4, *command, "--memory", memory // 4, "--steps", "24", "--out", kind + "2", "--quiet", says="least")
        done = ebb(*command, "--memory", memory, "--steps", "20", "--out", kind).json()
        assert done["already_done"] and done["buckets"] == whole["buckets"]
        more = ebb(*command, "--memory", "1G", "--steps", "2", "--out", kind, "--fresh").json()
        assert more["batch_tokens"] > n
        refused(4, *command, "--memory", "1000", "--out", "none", "--quiet", says=["not even a batch of 1 fits", "least"])


def test_shards_divide_what_fits():
    options = [*texts()["lm"], "--shards", "3"]
    memory = ebb("plan", "lm", *options, "--batch-tokens", "200", "--json").json()["least_bytes"]
    run = ebb("train", "lm", *options, "--batch", "auto", "--memory", memory, "--epochs", "1", "--out", "r", "--json").json()
    assert run["planned_peak_bytes"] == run["measured_peak_bytes"] <= memory
    assert all(rows % 3 == 0 for _, _, rows in run["buckets"]["shapes"])


def test_rows_that_no_sentence_fills_are_not_made():
    write("t", "a b c\n" * 5 + "a b c d e f g h\n" * 2)
    for shards, rows in [(1, [2, 5]), (2, [2, 6]), (4, [4, 8])]:
        out = f"r{shards}"
        run = ebb("train", "lm", "--train", "t", *LM, "--batch-tokens", "900", "--shards", shards, "--bucket", "optimal", "--epochs", "2", "--out", out, "--json").json()
        assert run["buckets"]["shapes"] == [[0, 9, rows[0]], [0, 4, rows[1]]] and run["steps"] == 4, run
        run = ebb("train", "lm", "--train", "t", *LM, "--batch", "auto", "--shards", shards, "--bucket", "optimal", "--epochs", "2", "--out", out + "a", "--json").json()
        assert run["buckets"]["shapes"] == [[0, 9, rows[0]], [0, 4, rows[1]]] and run["batch_tokens"] == max(9 * rows[0], 4 * rows[1])
    # A number of sentences is what was asked for.
    run = ebb("train", "lm", "--train", "t", *LM, "--batch", "8", "--bucket", "optimal", "--epochs", "1", "--out", "b", "--json").json()
    assert [rows for _, _, rows in run["buckets"]["shapes"]] == [8, 8] and run["batch_tokens"] == 0


def test_pools_count_sentences():
    options = [*texts()["lm"], "--bucket", "pool"]
    memory = ebb("plan", "lm", *options, "--batch", "12", "--json").json()["least_bytes"]
    run = ebb("train", "lm", *options, "--batch", "auto", "--memory", memory, "--epochs", "1", "--out", "r", "--json").json()
    assert run["batch"] >= 1 and run["batch_tokens"] == 0 and run["planned_peak_bytes"] == run["measured_peak_bytes"] <= memory
    ebb("plan", "lm", *options, "--batch", run["batch"] + (1 if run["batch"] < 16 else 8), "--memory", memory, "--json", expect=4)


def test_data_plan_finds_it_too():
    for kind, options in texts().items():
        memory = ebb("plan", kind, *options, "--batch-tokens", "70", "--json").json()["least_bytes"]
        n = ebb("plan", kind, *options, "--batch", "auto", "--memory", memory, "--json").json()["batch_tokens"]
        at = options.index("--train")
        asked = [x for x in options[:at] if x != "--by-sentence"] + ["--" + kind] + options[at + 1:]
        found = ebb("data", "plan", *asked, "--batch", "auto", "--memory", memory, "--json").json()
        assert (found["batch"], found["batch_tokens"]) == (0, n)
        assert found == ebb("data", "plan", *asked, "--batch-tokens", n, "--json").json()
        refused(4, "data", "plan", *asked, "--batch", "auto", "--memory", "1000", says="not even a batch of 1 fits")


# ---- what was chosen ----

def test_what_was_chosen_is_told():
    lines("t")
    lines("v", 9, seed=2)
    for bucket in ["none", "optimal", "auto"]:
        shown = train(*LM, "--batch", "6", "--shapes", "3", "--bucket", bucket, "--out", bucket, "--json")
        told = shown.json()["buckets"]
        assert told["strategy"] == bucket or bucket == "auto"
        n = len(told['shapes'])
        line = f"buckets: {told['strategy']}, {n} shape{'s' if n > 1 else ''}, {100 * told['padded_share']:.1f}% padding"
        assert line in shown.err.splitlines(), shown.err
        assert told["shapes"][0][1] == 13 and all(shape[0] == 0 and shape[2] == 6 for shape in told["shapes"])
    with open("t", encoding="utf8") as file:
        tokens = [len(line.split()) + 1 for line in file]
    none = json.loads(train(*LM, "--batch", "6", "--shapes", "3", "--bucket", "none", "--out", "none", "--json", "--quiet").out)
    assert none["already_done"] and abs(none["buckets"]["padded_share"] - (1 - sum(tokens) / (13 * len(tokens)))) < 1e-9
    text("s")
    assert ebb("train", "lm", "--train", "s", *TINY, "--steps", "2", "--out", "stream", "--json").json()["buckets"] is None


def test_bad_texts_whatever_the_batch():
    write("empty", "")
    write("one", "a b c\n")
    write("long", "a b c d e f\na b c d e f g\n")
    write("few", "a b\na b c\na b c d\n")
    for batch in [["--batch", "4"], ["--batch-tokens", "50"], ["--batch", "auto"]]:
        commands = [["train", "lm", *LM, "--train"], ["train", "nmt", *NMT, "--train"],
                    ["data", "plan", "--layers", "1", "--hidden", "8", "--lm"], ["data", "plan", *NMT, "--nmt"]]
        for i, (command, pair) in enumerate(zip(commands, [False, True] * 2)):
            files = lambda name: [name, name] if pair else [name]
            more = [*batch, "--out", f"{i}{batch[1]}", "--epochs", "1"] if command[0] == "train" else batch
            refused(3, *command, *files("empty"), *more, says="empty")
            refused(3, *command, *files("long"), *more, "--max-len", "3", says="none of the 2 ")
            for text_, shapes in [("one", "32"), ("few", "32"), ("one", "1")]:
                fresh = ["--fresh"] if command[0] == "train" else []
                assert ebb(*command, *files(text_), *more, *fresh, "--shapes", shapes, "--quiet", "--json").out
            refused(2, *command, *files("few"), "--batch", "0", says="out of range")
            refused(2, *command, *files("few"), "--batch-tokens", "0", says="out of range")


# ---- planning many shapes ----

def live(*args):
    """What a terminal shows, in lines and redrawn lines."""
    terminal, end = pty.openpty()
    process = subprocess.Popen([EBB, *map(str, args)], stdout=subprocess.PIPE, stderr=end, env={**os.environ, "TERM": "vt100"})
    os.close(end)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        shown += part
    out = process.stdout.read()
    assert process.wait() == 0, shown
    os.close(terminal)
    return out.decode(), shown.decode("utf8", "replace").replace("\n", "\r").split("\r")


def test_progress_of_planning():
    options = ["nmt", *NMT, "--train", lines("a", 900, 40), lines("b", 900, 40, seed=3), "--shapes", "24", "--steps", "1"]
    out, shown = live("train", *options, "--out", "r", "--json")
    told = [re.search(r"planning: (\d+) of (\d+) programs", line) for line in shown]
    told = [(int(found[1]), int(found[2])) for found in told if found]
    assert told and all(done <= total <= 24 for done, total in told) and told == sorted(told)
    assert json.loads(out)["steps"] == 1
    plain = ebb("train", *options, "--out", "s", "--json")
    assert "\r" not in plain.err and plain.err.count("planning: ") <= 4 and plain.json()["steps"] == 1
    assert "planning" not in ebb("train", *options, "--out", "t", "--quiet").err


def test_stopped_while_planning():
    """A stop is heard between two programs; nothing is there that was not there before."""
    process = subprocess.Popen([EBB, "train", "nmt", "--hidden", "64", "--train", lines("a", 900, 99), lines("b", 900, 99, seed=3), "--max-len", "99",
                                "--shapes", "32", "--out", "r"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not os.path.exists("r"):
        assert process.poll() is None
        time.sleep(0.002)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    err = process.communicate()[1]
    assert process.returncode == 75 and ("stopped while planning" in err or "state saved" in err), err


if __name__ == "__main__":
    main(globals())
