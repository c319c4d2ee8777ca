"""Scores of translations: BLEU and chrF of files, good and bad, and perplexity of translation models.

What the scores must be is in tests/golden/bleu.json (see test_golden below and tests/golden/test_bleu.c);
tests/cli/test_sacrebleu.py asks sacreBLEU itself where it is installed."""
import gzip
import json
import math
import os
import random

from ebbtest import SANITIZED, ebb, main, metrics, refused, write

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/bleu.json")


def score(metric, *options, hyp="hyp", ref="ref"):
    return ebb("eval", metric, hyp, ref, *options, "--json").json()


def files(hyp, ref):
    write("hyp", hyp)
    write("ref", ref)


def test_golden():
    with open(GOLDEN, encoding="utf-8") as file:
        corpora = json.load(file)["corpora"]
    for corpus in corpora[::25]:
        files(corpus["hyp"], corpus["ref"])
        for tok in ["13a", "none"]:
            want, got = corpus[tok], score("bleu", "--tok", tok)
            assert abs(got["bleu"] - want[0]) < 1e-9 and abs(got["brevity_penalty"] - want[1]) < 1e-9, (got, corpus)
            assert [got["hyp_length"], got["ref_length"], got["sentences"]] == [want[2], want[3], corpus["lines"]], (got, corpus)
            assert all(abs(a - b) < 1e-9 for a, b in zip(got["precisions"], want[12:16], strict=True)), (got, corpus)
        assert abs(score("chrf")["chrf"] - corpus["chrf"]) < 1e-9, corpus


def test_what_is_printed():
    files("the cat sat on the mat .\n", "the cat sat on a mat .\n")
    version = ebb("--version").out.split()[1]
    signature = f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    result = score("bleu")
    assert set(result) == {"schema", "bleu", "signature", "precisions", "brevity_penalty", "hyp_length", "ref_length", "ratio", "sentences"}
    assert result["schema"] == 1 and result["signature"] == signature and result["ratio"] == 1
    line = ebb("eval", "bleu", "hyp", "ref").out
    assert line == f"BLEU|{signature} = {result['bleu']:.2f} 85.7/66.7/40.0/25.0 (BP = 1.000 ratio = 1.000 hyp_len = 7 ref_len = 7)\n", line
    assert score("bleu", "--tok", "none")["signature"] == signature.replace("13a", "none")
    signature = f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}"
    result = score("chrf")
    assert set(result) == {"schema", "chrf", "signature", "sentences"} and result["signature"] == signature
    assert ebb("eval", "chrf", "hyp", "ref").out == f"chrF2|{signature} = {result['chrf']:.2f}\n"
    for kind in ["bleu", "chrf"]:
        assert f"eval {kind} HYP REF..." in ebb("eval", kind, "--help").out


def test_several_references():
    files("the cat sat on the mat\n", "a cat sat on a mat\n")
    write("more", "the cat is on the mat today\n")
    one, two = score("bleu"), ebb("eval", "bleu", "hyp", "ref", "more", "--json").json()
    assert two["bleu"] > one["bleu"] and two["ref_length"] == 6 and two["signature"].startswith("nrefs:2|")
    assert ebb("eval", "bleu", "hyp", "ref", "ref", "--json").json()["bleu"] == one["bleu"]
    best = max(score("chrf")["chrf"], score("chrf", ref="more")["chrf"])
    assert ebb("eval", "chrf", "hyp", "ref", "more", "--json").json()["chrf"] == best  # one sentence: its best reference
    assert ebb("eval", "chrf", "hyp", "ref", "more").out.startswith("chrF2|nrefs:2|")


def test_line_ends_and_packed_files():
    files("a b c d e\nf g h i\n", b"a b c d e \r\nf g h i")
    assert abs(score("bleu")["bleu"] - 100) < 1e-9
    with gzip.open("packed", "wb") as file:
        file.write(b"a b c d e\nf g h i\n")
    assert score("bleu", ref="packed") == score("bleu")
    files("\n\n\n", "\n\n\n")
    assert score("bleu")["bleu"] == 0 and score("bleu")["sentences"] == 3 and score("chrf")["chrf"] == 0
    files(b"a\0b c\n", b"a\0b c\n")  # NUL is a character like others, as in Python
    assert score("bleu")["hyp_length"] == 2 and abs(score("chrf")["chrf"] - 100) < 1e-9


def test_bad_files():
    files("a\nb\nc\n", "a\nb\n")
    for metric in ["bleu", "chrf"]:
        refused(3, "eval", metric, "hyp", "ref", says=["ref has 2 lines", "hyp has 3"])
        refused(3, "eval", metric, "ref", "hyp", says=["ref has 2 lines", "hyp has 3"])
        refused(3, "eval", metric, "hyp", "nowhere", says=["nowhere", "No such file"])
        refused(3, "eval", metric, "nowhere", "ref", says="nowhere")
        refused(3, "eval", metric, ".", "ref", says="folder")
        refused(2, "eval", metric, "hyp", says="HYP REF...")
        write("two", "a\nb\n")
        write("three", "a\nb\nc\n")
        refused(3, "eval", metric, "hyp", "three", "two", says=["two has 2 lines", "hyp has 3"])
        refused(3, "eval", metric, "two", "two", "hyp", says=["two has 2 lines", "hyp has 3"])
        refused(3, "eval", metric, "hyp", "three", "nowhere", says=["nowhere", "No such file"])
    refused(2, "eval", "bleu", "hyp", "ref", "--tok", "14a", says=["13a", "none"])
    refused(2, "eval", "chrf", "hyp", "ref", "--tok", "none", says="eval chrf takes no --tok")
    refused(2, "eval", "blue", "hyp", "ref", says="did you mean bleu?")
    write("empty", b"")
    refused(3, "eval", "bleu", "empty", "ref", says="empty: is empty")
    refused(3, "eval", "bleu", "hyp", "empty", says="empty: is empty")
    write("latin", "a\nb\ngr\xfcn\n".encode("latin-1"))
    refused(3, "eval", "bleu", "latin", "hyp", says="latin:3: is not valid UTF-8")
    refused(3, "eval", "chrf", "hyp", "latin", says="latin:3: is not valid UTF-8")


def test_long_lines():
    dice = random.Random(1)
    words = [str(dice.randrange(50000)) for _ in range(100000)]
    files(" ".join(words) + "\n", " ".join(words[::-1]) + "\n")
    result = score("bleu")
    assert result["hyp_length"] == 100000 and result["precisions"][0] > 99.9 and result["precisions"][1] < 1, result
    assert score("chrf")["chrf"] > 50
    letters = (1 if SANITIZED else 4) << 20  # one word, in one line
    files("a" * letters + "\n", "a" * letters + "\n")
    assert score("bleu")["hyp_length"] == 1 and abs(score("chrf")["chrf"] - 100) < 1e-9


# ---- eval nmt ----

TRAIN = ["train", "nmt", "--hidden", "8", "--threads", "1", "--feed", "--smoothing", "0.1", "--dropout", "0.2", "--lr", "0.01", "--quiet"]


def pairs(name, lines, seed, longest=9, letters=12):
    dice = random.Random(seed)
    rows = [[dice.randrange(letters) for _ in range(dice.randint(1, longest))] for _ in range(lines)]
    write(name + ".src", "".join(" ".join("s%d" % w for w in row) + "\n" for row in rows))
    write(name + ".tgt", "".join(" ".join("t%d" % w for w in reversed(row)) + "\n" for row in rows))
    return [name + ".src", name + ".tgt"]


def close(a, b, bound=1e-6):
    return abs(a - b) <= bound * abs(b)


def test_perplexity_is_that_of_validation():
    train, valid = pairs("t", 80, 1), pairs("v", 33, 2, longest=12, letters=14)
    for i, options in enumerate([["--batch", "4"], ["--batch", "16", "--tokens", "char", "--max-len", "20"], ["--batch", "7", "--tie-src"]]):
        ebb(*TRAIN, *options, "--train", *train, "--valid", *valid, "--epochs", "2", "--out", f"run{i}")
        best = min(line["valid_perplexity"] for line in metrics(f"run{i}") if "valid_perplexity" in line)
        before = sorted(os.listdir(f"run{i}"))
        result = ebb("eval", "nmt", f"run{i}", *valid, "--json").json()
        assert close(result["token_perplexity"], best), (result, best)
        other = ebb("eval", "nmt", f"run{i}", *valid, "--json", "--batch", "3", "--threads", "2", "--memory", "64M").json()
        assert close(other["token_perplexity"], best), (other, best)
        assert result["planned_peak_bytes"] == result["measured_peak_bytes"] > 0
        assert sorted(os.listdir(f"run{i}")) == before
    assert ebb("eval", "nmt", "run0", *valid).out.startswith("pairs             33 (0 more left out)\n")


def test_scores_of_lines():
    train = pairs("t", 80, 1)
    ebb(*TRAIN, "--batch", "4", "--train", *train, "--epochs", "2", "--max-len", "10", "--out", "run")
    write("v.src", "s1 s2 s3\n\ns4\n" + "s1 " * 12 + "\ns5 s5 new s6 s1\ns1 s2 s3\n")
    write("v.tgt", "t3 t2 t1\nt1\nt4 t4\nt1\nt1 t6 t5 t5\nt3 t2 t1\n")
    told = ["eval", "nmt", "run", "v.src", "v.tgt"]
    lines = ebb(*told, "--per-line").out.split()
    assert len(lines) == 6 and lines[1] == lines[3] == "nan" and lines[0] == lines[5] and all(float(x) < 0 for x in lines if x != "nan"), lines
    result = ebb(*told, "--per-line", "--json").json()
    probs = [x for x in result["log_probs"] if x is not None]
    assert len(result["log_probs"]) == 6 and len(probs) == 4 and close(-sum(probs), result["loss"] * result["tokens"])
    assert result["planned_peak_bytes"] == result["measured_peak_bytes"] and "log_probs" not in ebb(*told, "--json").json()
    for options in [["--batch", "1"], ["--batch", "3", "--threads", "2"], ["--memory", "64M"]]:
        assert ebb(*told, "--per-line", "--json", *options).json()["log_probs"] == result["log_probs"], options
    # What decode says of its own translations.
    source = open("t.src", encoding="utf8").readlines()
    best = ebb("decode", "run", "--nbest", "2", "--beam", "2", "--quiet", input="".join(source[:40]).encode()).out.splitlines()
    best = [line.split(" ||| ") for line in best]
    best = [row for row in best if row[1].strip() and len(row[1].split()) < 10]
    write("h.src", "".join(source[int(row[0])] for row in best))
    write("h.tgt", "".join(row[1] + "\n" for row in best))
    scored = ebb("eval", "nmt", "run", "h.src", "h.tgt", "--per-line").out.split()
    assert len(scored) == len(best) > 20
    for row, score in zip(best, scored, strict=True):
        assert abs(float(row[2]) - float(score)) < 1e-4, (row, score)
    refused(2, "eval", "lm", "run", "v.src", "--per-line", says="--per-line")


def test_what_perplexity_counts():
    train = pairs("t", 40, 1)
    ebb(*TRAIN, "--batch", "4", "--train", *train, "--steps", "5", "--max-len", "6", "--tokens", "word", "--out", "words")
    ebb(*TRAIN, "--batch", "4", "--train", *train, "--steps", "5", "--max-len", "20", "--tokens", "char", "--out", "letters")
    # lines: used, empty source, too long, used with unknown words, empty target
    write("a.src", "s1 s2\n\ns1 s1 s1 s1 s1 s1 s1 s1\ns3 new\ns4\n")
    write("a.tgt", "t2 t1\nt1\nt1\nnew t3 newer\n \n")
    run = ebb("eval", "nmt", "words", "a.src", "a.tgt", "--json")
    result = run.json()
    assert "1 of 5 lines have more than 6 tokens" in run.err and "first is line 3" in run.err, run.err
    assert "2 of 5 lines are empty" in run.err and "first is line 2" in run.err, run.err
    assert (result["pairs"], result["left_out"]) == (2, 3)
    assert (result["tokens"], result["words"], result["bytes"]) == (7, 7, 6 + 13)
    assert (result["unknown"], result["source_unknown"]) == (2, 1)
    assert close(result["token_perplexity"], math.exp(result["loss"]), 1e-12) and result["word_perplexity"] == result["token_perplexity"]
    assert close(result["bits_per_byte"], result["loss"] * 7 / 19 / math.log(2), 1e-12)
    result = ebb("eval", "nmt", "letters", "a.src", "a.tgt", "--json", "--quiet").json()
    assert (result["pairs"], result["left_out"]) == (3, 2), result  # a line with only a space has a token here
    assert (result["tokens"], result["words"]) == (6 + 13 + 2, 3 + 4 + 1), result
    assert close(result["word_perplexity"], math.exp(result["loss"] * 21 / 8), 1e-12)


def test_eval_nmt_refuses():
    train = pairs("t", 20, 1)
    ebb(*TRAIN, "--batch", "4", "--train", *train, "--steps", "2", "--out", "run")
    ebb("train", "lm", "--train", "t.src", "--hidden", "4", "--steps", "1", "--out", "lm", "--quiet")
    write("short", "s1\n")
    write("empty", b"")
    refused(3, "eval", "nmt", "run", "t.src", "short", says=["short", "has 1 lines", "has 20"])
    refused(3, "eval", "nmt", "run", "t.src", "empty", says="empty")
    refused(3, "eval", "nmt", "run", "t.src", "nowhere", says="nowhere")
    refused(5, "eval", "nmt", "nowhere", *train, says="nowhere")
    refused(5, "eval", "nmt", "lm", *train, says="language model")
    refused(5, "eval", "lm", "run", "t.tgt", says="translation model")
    refused(2, "eval", "nmt", "run", "t.src", says="DIR SRC TGT")
    refused(4, "eval", "nmt", "run", *train, "--memory", "10000", says="least")
    os.truncate("run/best.safetensors" if os.path.exists("run/best.safetensors") else "run/last.safetensors", 1000)
    refused(5, "eval", "nmt", "run", *train, says="safetensors")
    os.remove("run/vocab.tgt.txt")
    refused(5, "eval", "nmt", "run", *train, says="vocab.tgt.txt")


if __name__ == "__main__":
    main(globals())
