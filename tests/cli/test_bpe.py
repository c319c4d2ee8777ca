#!/usr/bin/env python3
"""Training on pieces of words: `--tokens bpe` gives the bits of a run over the same pieces as words,
texts go in and come out as words, codes belong to the run, and everything else is refused."""
import json
import os
import random

from ebbtest import TINY, ebb, main, refused, write

NMT = ["--hidden", "32", "--batch", "8", "--threads", "1", "--bucket", "optimal", "--shapes", "2", "--lr", "0.02", "--optimizer", "adam"]
STEMS, ENDS = ["walk", "talk", "jump", "sing", "work", "look"], ["", "ed", "ing", "er", "s"]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def words(path, lines=120, seed=1, upper=False):
    """Words that are stems and ends; as targets, the other way round and in capitals."""
    dice = random.Random(seed)
    rows = [[dice.choice(STEMS) + dice.choice(ENDS) for _ in range(dice.randint(1, 6))] for _ in range(lines)]
    shown = [[w.upper() for w in reversed(row)] if upper else row for row in rows]
    return write(path, "".join(" ".join(row) + "\n" for row in shown))


def pairs(name, lines=120, seed=1):
    return [words(name + ".src", lines, seed), words(name + ".tgt", lines, seed, True)]


def tensors(path):
    """All of a safetensors file but what it says of its words: codes are part of that."""
    data = read(path)
    n = int.from_bytes(data[:8], "little")
    head = json.loads(data[8:8 + n])
    assert "vocab_xxh3" in head.pop("__metadata__")
    return head, data[8 + n:]


def metrics(run):
    with open(os.path.join(run, "metrics.jsonl")) as file:
        return [json.loads(line) for line in file]


def cut(codes, path):
    ebb("data", "codes", "apply", codes, path, path + ".cut")
    return path + ".cut"


def test_language_model_of_pieces():
    words("t"), words("v", 30, 2)
    options = [*TINY, "--valid", "v", "--steps", "60", "--quiet"]
    ebb("train", "lm", "--train", "t", *options, "--tokens", "bpe", "--codes", "20", "--out", "bpe")
    ebb("data", "codes", "learn", "t", "codes", "--codes", "20")
    assert read("codes") == read("bpe/codes.txt")
    # The same pieces as words: the same ids, the same bits.
    ebb("train", "lm", "--train", cut("codes", "t"), *[cut("codes", "v") if o == "v" else o for o in options], "--vocab", "all", "--out", "word")
    assert read("bpe/vocab.txt") == read("word/vocab.txt") and b"@@\n" in read("bpe/vocab.txt")
    assert tensors("bpe/best.safetensors") == tensors("word/best.safetensors")
    # Codes that are given, as a file or as a run, are the same codes.
    for given in ["codes", "bpe"]:
        ebb("train", "lm", "--train", "t", *options, "--tokens", "bpe", "--codes", given, "--out", "by-" + given)
        assert read(f"by-{given}/codes.txt") == read("codes") and read(f"by-{given}/best.safetensors") == read("bpe/best.safetensors")
        assert f'codes-from = {given}\n' in read(f"by-{given}/config").decode()
    # Numbers by which runs compare: pieces and words of the text as it is.
    pieces, whole = ebb("eval", "lm", "bpe", "v", "--json").json(), ebb("eval", "lm", "word", "v.cut", "--json").json()
    assert pieces["loss"] == whole["loss"] and pieces["tokens"] == whole["tokens"] and pieces["unknown"] == 0
    assert pieces["words"] == len(read("v").split()) + read("v").count(b"\n") and pieces["bytes"] == len(read("v")) < whole["bytes"]
    assert pieces["word_perplexity"] > pieces["token_perplexity"] and pieces["bits_per_byte"] > whole["bits_per_byte"]
    assert pieces["planned_peak_bytes"] == pieces["measured_peak_bytes"]
    # Generated text is words.
    made = ebb("generate", "bpe", "--prompt", "walking", "--length", "60", "--seed", "3").out
    assert made.startswith("walking") and "@@" not in made
    given = ebb("generate", "word", "--prompt", read("v.cut").decode().split("\n")[0], "--length", "60", "--seed", "3").out
    assert ebb("generate", "bpe", "--prompt", read("v").decode().split("\n")[0], "--length", "60", "--seed", "3").out == given.replace("@@ ", "").replace("@@\n", "\n")


def test_killed_and_resumed():
    words("t")
    options = ["train", "lm", "--train", "t", *TINY, "--tokens", "bpe", "--codes", "15", "--quiet"]
    ebb(*options, "--steps", "50", "--out", "whole")
    ebb(*options, "--steps", "20", "--out", "parts")
    ebb(*options, "--steps", "50", "--out", "parts")
    assert read("whole/last.safetensors") == read("parts/last.safetensors")
    refused(2, *options[:-2], "16", "--steps", "50", "--out", "parts", "--quiet", says="codes")
    other = read("parts/codes.txt").split(b"\n")
    write("parts/codes.txt", b"\n".join(other[:3] + other[4:]))
    for command in [[*options, "--steps", "60", "--out", "parts"], ["generate", "parts"], ["eval", "lm", "parts", "t"]]:
        refused(5, *command)
    write("parts/codes.txt", b"\n".join(other[:3] + [b"xyz zyx"]))
    refused(5, *options, "--steps", "60", "--out", "parts", says="codes.txt:4")
    os.remove("parts/codes.txt")
    refused(5, "generate", "parts", says="codes.txt: there is no such file")


def test_by_sentence():
    words("t")
    options = ["--layers", "1", "--hidden", "8", "--threads", "1", "--batch", "8", "--by-sentence", "--epochs", "2", "--quiet"]
    ebb("train", "lm", "--train", "t", *options, "--tokens", "bpe", "--codes", "20", "--out", "bpe")
    ebb("train", "lm", "--train", cut("bpe/codes.txt", "t"), *options, "--vocab", "all", "--out", "word")
    assert tensors("bpe/last.safetensors") == tensors("word/last.safetensors")
    by = ebb("eval", "lm", "bpe", "t", "--json").json()
    assert by["loss"] == ebb("eval", "lm", "word", "t.cut", "--json").json()["loss"] and by["sentences"] == 120
    shown = ebb("data", "plan", "--lm", "t", "--tokens", "bpe", "--codes", "20", "--json").json()
    assert shown["mean_length"] == ebb("data", "plan", "--lm", "t.cut", "--json").json()["mean_length"]


def test_translation_of_pieces():
    train, valid = pairs("t"), pairs("v", 30, 2)
    options = [*NMT, "--valid-metric", "bleu", "--epochs", "30", "--quiet"]
    for apart in [[], ["--codes-apart"]]:
        out = "apart" if apart else "both"
        ebb("train", "nmt", "--train", *train, "--valid", *valid, *options, "--tokens", "bpe", "--codes", "25", *apart, "--out", out)
        ebb("data", "codes", "learn", *train, "joint", "--codes", "25")
        files = [f"{out}/codes.src.txt", f"{out}/codes.tgt.txt"] if apart else [f"{out}/codes.txt"] * 2
        for side, text in enumerate(train):
            ebb("data", "codes", "learn", text, "own", "--codes", "25", "--quiet")
            assert read(files[side]) == read("own" if apart else "joint")
        cuts = [cut(files[side], text) for side, text in enumerate(train)]
        cut_valid = [cut(files[side], text) for side, text in enumerate(valid)]
        ebb("train", "nmt", "--train", *cuts, "--valid", *cut_valid, *options, "--vocab", "all", "--out", out + "-words", "--valid-metric", "perplexity")
        assert tensors(f"{out}/last.safetensors") == tensors(f"{out}-words/last.safetensors")
        # BLEU is that of words, as the file of translations has it.
        best = max(metrics(out), key=lambda line: line.get("valid_bleu", -1))
        with open(valid[0], "rb") as source:
            found = ebb("decode", out, "--beam", "1", stdin=source).out
        assert "@@" not in found and found.count("\n") == 30
        write("hyp", found)
        assert abs(ebb("eval", "bleu", "hyp", valid[1], "--tok", "none", "--json").json()["bleu"] - best["valid_bleu"]) < 1e-9 and best["valid_bleu"] > 5
        scored = ebb("eval", "nmt", out, *valid, "--json").json()
        assert scored["words"] == len(read(valid[1]).split()) + 30 and scored["tokens"] > scored["words"]
    refused(2, "train", "nmt", "--train", *train, *NMT, "--tokens", "bpe", "--codes-apart", "--tie-src", "--out", "x", says="only one can hold")


def test_dropout():
    train, valid = pairs("t"), pairs("v", 30, 2)
    options = ["train", "nmt", "--train", *train, "--valid", *valid, "--hidden", "16", "--batch", "8", "--shapes", "3", "--lr", "0.02", "--valid-metric", "bleu",
               "--tokens", "bpe", "--codes", "25", "--codes-dropout", "0.3", "--tune", "off", "--quiet"]
    wide = ebb(*options, "--epochs", "4", "--threads", "2", "--out", "wide", "--json").json()
    assert wide["planned_peak_bytes"] == wide["measured_peak_bytes"] and wide["buckets"]["strategy"] == "pool"
    least = ebb("plan", *options[1:], "--threads", "1", "--json").json()["least_bytes"]
    narrow = ebb(*options, "--epochs", "4", "--threads", "1", "--memory", least, "--out", "narrow", "--json").json()
    assert narrow["measured_peak_bytes"] <= least
    ebb(*options, "--epochs", "4", "--steps", "23", "--threads", "1", "--out", "parts")
    ebb(*options, "--epochs", "4", "--threads", "1", "--out", "parts")
    assert read("wide/last.safetensors") == read("narrow/last.safetensors") == read("parts/last.safetensors")
    assert [line["valid_bleu"] for line in metrics("narrow")] == [line["valid_bleu"] for line in metrics("wide")]
    # Pieces that only dropout makes are words of the model too; nothing is unknown.
    assert len(read("wide/vocab.tgt.txt").split()) > 30
    assert ebb("eval", "nmt", "wide", *valid, "--json").json()["unknown"] == 0
    # Without it, or with another share, it is another run, and not the same bits.
    refused(2, *[o if o != "0.3" else "0.2" for o in options], "--epochs", "5", "--out", "wide", says="codes-dropout")
    ebb(*[o if o != "0.3" else "0.0001" for o in options], "--epochs", "4", "--threads", "1", "--out", "other")
    assert read("wide/last.safetensors") != read("other/last.safetensors")
    refused(2, *options, "--bucket", "optimal", "--out", "x", says="--bucket pool or auto")
    refused(2, *[o for o in options if o not in ["--batch", "8"]], "--batch-tokens", "50", "--out", "x", says="--batch N")
    refused(2, *options, "--codes-dropout", "1", "--out", "x", says="codes-dropout")
    plain = [o for o in options if o not in ["--tokens", "bpe", "--codes", "25"]]
    refused(2, *plain, "--out", "x", says="--tokens bpe")
    assert "codes-dropout = 0.3\n" in read("wide/config").decode()


def test_blanked_tokens():
    train, valid = pairs("t"), pairs("v", 30, 2)
    options = ["train", "nmt", "--train", *train, "--valid", *valid, "--hidden", "16", "--batch", "8", "--shapes", "3", "--lr", "0.02", "--tune", "off", "--quiet", "--epochs", "3"]
    for tokens in (["--tokens", "word"], ["--tokens", "bpe", "--codes", "25"], ["--tokens", "bpe", "--codes", "25", "--codes-dropout", "0.2"]):
        blanked = [*options, *tokens, "--token-dropout", "0.2"]
        whole = ebb(*blanked, "--threads", "2", "--fresh", "--out", "blank", "--json").json()
        assert whole["planned_peak_bytes"] == whole["measured_peak_bytes"]
        ebb(*blanked, "--steps", "11", "--threads", "1", "--fresh", "--out", "parts")
        ebb(*blanked, "--threads", "1", "--out", "parts")
        assert read("blank/last.safetensors") == read("parts/last.safetensors")
        ebb(*options, *tokens, "--fresh", "--out", "plain")
        assert read("blank/last.safetensors") != read("plain/last.safetensors")
        refused(2, *options, *tokens, "--token-dropout", "0.3", "--out", "blank", says="token-dropout")
    refused(2, *options, "--token-dropout", "1", "--out", "x", says="token-dropout")


def test_shared_vocabulary():
    train = pairs("t")
    ebb("train", "nmt", "--train", *train, *NMT, "--steps", "4", "--tokens", "bpe", "--codes", "25", "--tie-src", "--samples", "1", "--valid", *train, "--out", "tied", "--quiet")
    assert sorted(f for f in os.listdir("tied") if f.endswith(".txt")) == ["codes.txt", "vocab.txt"]
    with open(train[0], "rb") as source:
        assert ebb("decode", "tied", stdin=source).out.count("\n") == 120


def test_made_ahead():
    words("t")
    ebb("data", "build", "--lm", "t", "--tokens", "bpe", "--codes", "15", "--out", "run", "--quiet")
    made = {name: os.stat("run/" + name).st_ino for name in ["train.tokens"]}
    ebb("train", "lm", "--train", "t", *TINY, "--tokens", "bpe", "--codes", "15", "--steps", "3", "--out", "run", "--quiet")
    assert os.stat("run/train.tokens").st_ino == made["train.tokens"]
    # The same pieces of another text, or by other codes, are made again.
    ebb("data", "build", "--lm", "t", "--tokens", "bpe", "--codes", "12", "--out", "other", "--quiet")
    assert read("other/train.tokens") != read("run/train.tokens")


def test_bad_input():
    words("t")
    train = ["train", "lm", "--train", "t", *TINY, "--steps", "2", "--quiet"]
    refused(2, *train, "--codes", "20", "--out", "r", says="--tokens bpe")
    refused(2, *train, "--tokens", "45", "--out", "r", says="--batch-tokens 45")
    refused(2, *train, "--tokens", "bpe", "--codes", "0", "--out", "r", says="out of range")
    refused(5, *train, "--tokens", "bpe", "--codes", "absent", "--out", "r", says="absent: there is no such file")
    write("bad", "#version: 0.2\na b\nqq b\n")
    refused(5, *train, "--tokens", "bpe", "--codes", "bad", "--out", "r", says="bad:3")
    ebb(*train, "--out", "plain")
    refused(5, *train, "--tokens", "bpe", "--codes", "plain", "--out", "r", says="plain")
    os.mkdir("mine")
    write("mine/codes.txt", "precious")
    refused(2, *train, "--tokens", "bpe", "--codes", "9", "--out", "mine", says="codes.txt")
    assert read("mine/codes.txt") == b"precious"
    dice = random.Random(5)
    write("big", "".join("".join(dice.choice("abcdefghij") for _ in range(9)) + "\n" for _ in range(60000)))
    refused(4, *train[:2], "--train", "big", *train[4:], "--tokens", "bpe", "--memory", "100K", "--out", "r", says="codes")
    assert not os.path.exists("r/codes.txt")


if __name__ == "__main__":
    main(globals())
