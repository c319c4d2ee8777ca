#!/usr/bin/env python3
"""The vocabulary belongs to the model: weights say which words they know, other words are refused,
--init DIR takes all that a run has, --vocab a given vocabulary, --new-words adds to one."""
import json
import os
import shutil
import struct

from ebbtest import TINY, ebb, main, pairs, refused, text, write

STILL = ["--lr", "1e-38", "--optimizer", "sgd"]  # a step that changes no bit


def read(path):
    with open(path, "rb") as file:
        return file.read()


def header(path):
    data = read(path)
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


def rows(path, name):
    head, data = header(path)
    begin, end = head[name]["data_offsets"]
    n = head[name]["shape"][0]
    size = (end - begin) // n
    return [data[begin + i * size:begin + (i + 1) * size] for i in range(n)]


def words(path):
    with open(path) as file:
        return file.read().split()


def second(path="u"):
    """Other words than text() has, among some that it has, in another order."""
    return write(path, "w3 new w1 w1 other new w1\nnew thing w29 w29\n" * 40)


def first_run(*more, out="first"):
    text("t")
    ebb("train", "lm", "--train", "t", *TINY, "--steps", "40", "--quiet", "--out", out, *more)
    return out


def perplexity(run, path):
    return ebb("eval", "lm", run, path, "--json").json()["word_perplexity"]


def test_weights_tell_their_words():
    first_run()
    second()
    head, _ = header("first/last.safetensors")
    assert list(head["__metadata__"]) == ["vocab_xxh3"] and len(head["__metadata__"]["vocab_xxh3"]) == 16
    assert ebb("inspect", "first/last.safetensors", "--json").json()["notes"] == head["__metadata__"]
    # Alone, without a vocabulary beside them: taken for other words they would be permuted.
    shutil.copy("first/last.safetensors", "alone.safetensors")
    write("v", " ".join(f"x{i}" for i in range(30)) + "\n" + " ".join(reversed([f"x{i}" for i in range(30)])) + "\n")
    assert len(words("first/vocab.txt")) == 32
    refused(2, "train", "lm", "--train", "v", *TINY, "--steps", "1", "--out", "x", "--init", "alone.safetensors", says=["another vocabulary", "--vocab DIR"])
    assert not os.path.exists("x/best.safetensors")
    # The same words are fine, and so is the way out that is told.
    ebb("train", "lm", "--train", "t", *TINY, "--steps", "1", "--out", "same", "--quiet", "--init", "alone.safetensors")
    ebb("train", "lm", "--train", "v", *TINY, *STILL, "--steps", "1", "--out", "way", "--quiet", "--init", "alone.safetensors", "--vocab", "first")
    assert read("way/vocab.txt") == read("first/vocab.txt") and perplexity("way", "t") == perplexity("first", "t")
    # Weights of others, which say nothing, are taken as they are.
    head, data = header("alone.safetensors")
    del head["__metadata__"]
    packed = json.dumps(head).encode()
    packed += b" " * (-len(packed) % 8)
    write("others.safetensors", struct.pack("<Q", len(packed)) + packed + data)
    ebb("train", "lm", "--train", "v", *TINY, "--steps", "1", "--out", "taken", "--quiet", "--init", "others.safetensors")


def test_init_of_a_run_takes_all_of_it():
    for more in [[], ["--tokens", "bpe", "--codes", "12"], ["--tokens", "char", "--vocab", "all", "--cell", "gru", "--tie", "--embed", "8"]]:
        shutil.rmtree("first", ignore_errors=True)
        first_run(*more)
        second()
        # One option: sizes, tokens, words and codes are those of the run.
        ebb("train", "lm", "--train", "u", "--init", "first", *STILL, "--batch", "4", "--bptt", "5", "--steps", "1", "--out", "on", "--quiet", "--fresh")
        for name in ["vocab.txt"] + (["codes.txt"] if "bpe" in more else []):
            assert read("on/" + name) == read("first/" + name)
        assert perplexity("on", "t") == perplexity("first", "t")
        assert header("on/best.safetensors") == header("first/best.safetensors")
        plan = ebb("plan", "lm", "--train", "u", "--init", "first", "--batch", "4", "--bptt", "5", "--json").json()
        assert plan["peak_bytes"] == ebb("plan", "lm", "--config", "on/config", "--json").json()["peak_bytes"]
        # It learns, and goes on where it stopped.
        options = ["train", "lm", "--train", "u", "--init", "first", "--batch", "4", "--bptt", "5", "--quiet"]
        ebb(*options, "--steps", "60", "--out", "tuned", "--fresh")
        assert perplexity("tuned", "u") < perplexity("first", "u")
        ebb(*options, "--steps", "20", "--out", "parts", "--fresh")
        ebb(*options, "--steps", "60", "--out", "parts")
        assert read("parts/last.safetensors") == read("tuned/last.safetensors")


def test_numbers_beside_what_a_run_gives_are_told():
    first_run("--tokens", "bpe", "--codes", "12", "--vocab", "30")
    second()
    tune = ["train", "lm", "--train", "u", "--init", "first", "--batch", "4", "--bptt", "5", "--steps", "1", "--fresh", "--out", "on"]
    for more, said in [(["--vocab", "20"], "--vocab 20 is not used: --init first gives its vocabulary"), (["--codes", "7"], "--codes 7 is not used: --init first gives its codes"),
                       ([], None), (["--vocab", "30", "--codes", "12"], None), (["--vocab", "all"], None), (["--config", "on/config"], None)]:
        result = ebb(*(tune[:2] + more if more[:1] == ["--config"] else tune + more))
        assert (said in result.err) if said else "is not used" not in result.err, (more, result.err)
        assert read("on/vocab.txt") == read("first/vocab.txt") and read("on/codes.txt") == read("first/codes.txt")


def test_a_run_goes_on_where_what_it_started_from_is_gone():
    first_run("--hidden", "12")
    second()
    tune = ["train", "lm", "--train", "u", "--init", "first", "--batch", "4", "--bptt", "5", "--quiet"]
    ebb(*tune, "--steps", "60", "--out", "whole")
    ebb(*tune, "--steps", "20", "--out", "parts")
    os.rename("first", "elsewhere")
    ebb(*tune, "--steps", "60", "--out", "parts")
    assert read("parts/last.safetensors") == read("whole/last.safetensors")
    for wrong in [["--out", "new"], ["--out", "parts", "--fresh"]]:
        refused(7, *tune, "--steps", "60", *wrong, says="first")
    refused(2, *tune, "--steps", "60", "--hidden", "16", "--out", "parts", says="hidden = 12")


def test_words_of_other_tokens_are_refused():
    first_run("--tokens", "bpe", "--codes", "12")
    second()
    refused(2, "train", "lm", "--train", "u", *TINY, "--vocab", "first", "--out", "x", says="--vocab first: its words are those of --tokens bpe")
    ebb("train", "lm", "--train", "u", *TINY, "--vocab", "first", "--tokens", "bpe", "--steps", "1", "--out", "x", "--quiet")
    assert read("x/codes.txt") == read("first/codes.txt")
    refused(2, "train", "lm", "--train", "u", *TINY, "--codes", "first", "--out", "y", says="--codes is about pieces")


def test_other_sizes_are_refused():
    first_run()
    second()
    refused(5, "train", "lm", "--train", "u", "--init", "first", "--hidden", "9", "--steps", "1", "--out", "x", "--quiet", says="another type or shape")
    refused(2, "train", "lm", "--train", "u", "--init", "first", "--tokens", "char", "--steps", "1", "--out", "x", "--quiet", "--vocab", "all", says="--init")
    train = pairs("p")
    ebb("train", "nmt", "--train", *train, "--hidden", "8", "--batch", "8", "--steps", "2", "--threads", "1", "--out", "pairs", "--quiet")
    refused(5, "train", "lm", "--train", "u", "--init", "pairs", "--out", "x", says="is a translation model")
    refused(5, "train", "lm", "--train", "u", *TINY, "--vocab", "pairs", "--out", "x", says="vocab.txt")


def test_given_vocabularies():
    first_run()
    second()
    for i, given in enumerate(["first", "first/vocab.txt"]):
        ebb("train", "lm", "--train", "u", *TINY, "--steps", "2", "--vocab", given, "--out", f"g{i}", "--quiet")
        assert read(f"g{i}/vocab.txt") == read("first/vocab.txt")
    assert read("g0/last.safetensors") == read("g1/last.safetensors")
    assert ebb("eval", "lm", "g0", "u", "--json").json()["unknown"] == 200
    assert ebb("train", "lm", "--config", "g0/config", "--json", "--quiet").json()["already_done"]
    refused(2, "train", "lm", "--train", "u", *TINY, "--steps", "3", "--out", "g0", "--quiet", says="vocab")
    refused(5, "train", "lm", "--train", "u", *TINY, "--vocab", "absent", "--out", "x", says="absent: there is no such file")
    write("bad", "<unk>\n<eos>\na\na\n")
    refused(5, "train", "lm", "--train", "u", *TINY, "--vocab", "bad", "--out", "x", says="bad:4")
    write("bad", "<unk>\nb\n")
    refused(5, "train", "lm", "--train", "u", *TINY, "--vocab", "bad", "--out", "x", says="bad:2")
    refused(2, "train", "lm", "--train", "u", *TINY, "--vocab", "-3", "--out", "x", says="out of range")
    # Weights of one run and words of another.
    text("t", seed=9)
    write("t2", read("t") + b"w0 w0 w0 w0 w0\n" * 99)
    ebb("train", "lm", "--train", "t2", *TINY, "--steps", "2", "--out", "second", "--quiet")
    refused(2, "train", "lm", "--train", "u", *TINY, "--init", "first", "--vocab", "second", "--out", "x", says="another vocabulary")


def test_files_of_any_length():
    """A file with more tokens than a vocabulary has is refused in a line, however long it is."""
    text("t")
    with open("huge", "wb") as file:
        file.write(b"<unk>\n<eos>\n")
        for first in range(0, 10 ** 7, 10 ** 5):
            file.write("".join(f"w{i}\n" for i in range(first, first + 10 ** 5)).encode())
    refused(5, "train", "lm", *TINY, "--train", "t", "--vocab", "huge", "--steps", "2", "--out", "x", says=["huge:8388609", "more than 8388608 tokens"])
    with open("huge", "wb") as file:
        file.truncate(2 * 10 ** 9)
    refused(5, "train", "lm", *TINY, "--train", "t", "--vocab", "huge", "--steps", "2", "--out", "x", says="huge")
    assert not os.path.exists("x/config")


def test_new_words():
    first_run()
    second()
    ebb("train", "lm", "--train", "u", "--init", "first", "--new-words", "2", *STILL, "--batch", "4", "--bptt", "5", "--steps", "1", "--out", "wide", "--quiet")
    assert words("wide/vocab.txt") == words("first/vocab.txt") + ["new", "other"]
    for name in ["embed.weight", "out.weight", "out.bias"]:
        old, wide = rows("first/best.safetensors", name), rows("wide/best.safetensors", name)
        assert wide == old + [old[0]] * 2, name
    assert ebb("eval", "lm", "wide", "u", "--json").json()["unknown"] == 40
    ebb("train", "lm", "--train", "u", "--init", "first", "--new-words", "99", "--steps", "1", "--out", "all", "--quiet")
    assert words("all/vocab.txt")[-1] == "thing" and len(words("all/vocab.txt")) == 35
    # Words that are there stay; a run without new ones is as before.
    ebb("train", "lm", "--train", "t", "--init", "first", "--new-words", "5", *STILL, "--batch", "4", "--bptt", "5", "--steps", "1", "--out", "none", "--quiet")
    assert read("none/best.safetensors") == read("first/best.safetensors")
    refused(2, "train", "lm", "--train", "u", *TINY, "--new-words", "2", "--out", "x", says="--init DIR")
    # Without being asked for, rows are not added.
    shutil.copy("first/best.safetensors", "alone.safetensors")
    refused(2, "train", "lm", "--train", "u", *TINY, "--init", "alone.safetensors", "--vocab", "wide", "--out", "x", says="another vocabulary")


def test_pairs():
    train, other = pairs("p"), pairs("q", seed=5)
    write("r.src", read("q.src") + b"s1 fresh\n"), write("r.tgt", read("q.tgt") + b"t1 neu\n")
    sizes = ["--hidden", "8", "--batch", "8", "--threads", "1", "--quiet"]
    for more in [[], ["--tokens", "bpe", "--codes", "6"], ["--tie-src"], ["--tokens", "bpe", "--codes", "6", "--codes-apart", "--feed"]]:
        ebb("train", "nmt", "--train", *train, *sizes, *more, "--epochs", "2", "--out", "first", "--fresh")
        ebb("train", "nmt", "--train", *other, "--init", "first", "--batch", "8", *STILL, "--steps", "1", "--out", "on", "--fresh", "--quiet")
        scores = [ebb("eval", "nmt", run, *train, "--json").json()["loss"] for run in ["first", "on"]]
        assert scores[0] == scores[1]
        ebb("train", "nmt", "--train", "r.src", "r.tgt", "--init", "first", "--batch", "8", "--new-words", "9", "--steps", "1", "--out", "wide", "--fresh", "--quiet")
        for name in [f for f in os.listdir("first") if f.startswith("vocab")]:
            assert words("wide/" + name)[:len(words("first/" + name))] == words("first/" + name)
            assert len(words("wide/" + name)) > len(words("first/" + name))


if __name__ == "__main__":
    main(globals())
