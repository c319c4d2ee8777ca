"""Whole commands on 1 to 4 threads: the same bits from all. Under TSan (make tsan-commands) a race
ends a command with a report, so that every exit code below is a check of its own."""
import os
import random
import struct

from ebbtest import ebb, main, text, weights, write

COUNTS = ["1", "2", "3", "4"]
LM = ["--hidden", "24", "--layers", "2", "--batch", "6", "--bptt", "7", "--dropout", "0.2"]
NMT = ["--vocab", "all", "--hidden", "16", "--embed", "12", "--batch", "8", "--dropout", "0.1", "--optimizer", "adam"]


NET = "input 1 16 16\n" + "conv 32 3 pad 1; relu\n" * 4 + "maxpool 2; gap; flatten; dropout 0.1; fc 3\n"
CNN = ["--net", "net.txt", "--batch", "16", "--flip", "--shift", "2", "--disable", "recompute"]


def images(count=80):
    dice = random.Random(1)
    os.mkdir("data")
    write("net.txt", NET)
    write("data/train-images-idx3-ubyte", struct.pack(">IIII", 0x803, count, 16, 16) + bytes(dice.randrange(256) for _ in range(count * 256)))
    write("data/train-labels-idx1-ubyte", struct.pack(">II", 0x801, count) + bytes(dice.randrange(3) for _ in range(count)))
    return ["--train", "data"]


def dates(lines=120):
    ebb("data", "dates", "src", "tgt", "--lines", lines, "--seed", "1")
    return ["--train", "src", "tgt", "--valid", "src", "tgt"]


def same(results):
    assert len(results) == len(COUNTS) and all(result == results[0] for result in results), results


def train(kind, *args):
    """Trains on every number of threads; the folders."""
    for threads in COUNTS:
        ebb("train", kind, *args, "--steps", "12", "--log-every", "3", "--threads", threads, "--out", "run" + threads)
    same([weights("run" + threads) for threads in COUNTS])


def use(*args, stdin=None):
    """Uses run2 on every number of threads; what was said, but for the bytes: every thread has some."""
    results = []
    for threads in COUNTS:
        with open(stdin or "/dev/null", "rb") as source:
            said = ebb(*args, "--threads", threads, stdin=source).out
        results.append("".join(line for line in said.splitlines(True) if "_peak_bytes" not in line))
    same(results)
    return results[0]


def test_train_lm():
    text("t.txt")
    train("lm", "--train", "t.txt", "--valid", "t.txt", *LM)
    assert '"token_perplexity"' in use("eval", "lm", "run2", "t.txt", "--json", "--batch", "4")
    assert use("generate", "run2", "--length", "30", "--seed", "3").strip()


def test_train_lm_in_little_memory():
    """Recomputation, chunks and shards: other programs than those of plenty."""
    text("t.txt")
    plan = ebb("plan", "lm", "--train", "t.txt", *LM, "--shards", "2", "--threads", "2", "--json").json()
    train("lm", "--train", "t.txt", *LM, "--shards", "2", "--memory", str(plan["least_bytes"] * 11 // 10))


def test_train_lm_by_sentence():
    text("t.txt")
    train("lm", "--train", "t.txt", "--by-sentence", "--hidden", "16", "--batch", "5", "--optimizer", "adam")


def test_train_nmt():
    train("nmt", *dates(), *NMT, "--valid-metric", "bleu", "--attention", "mlp", "--feed")
    translated = use("decode", "run2", "--beam", "3", "--attention", "a.json", stdin="src")
    assert len(translated.splitlines()) == 120
    assert '"token_perplexity"' in use("eval", "nmt", "run2", "src", "tgt", "--json")


def test_train_nmt_dot():
    train("nmt", *dates(), *NMT, "--attention", "dot", "--layer-norm", "--cell", "gru", "--shards", "2")


def test_train_cnn_with_sparse_maps():
    """Members pack values into one heap; where these are too many, a step is done again."""
    data = images()
    for density, few in [("0.9", True), ("0.2", False)]:
        model = [*CNN, "--disable", "chunk,recompute", "--density", density]
        model += ["--memory", str(ebb("plan", "cnn", *data, *model, "--threads", "4", "--json").json()["least_bytes"])]
        assert ebb("plan", "cnn", *data, *model, "--threads", "4", "--json").json()["sparse_reserved_bytes"] > 0
        train("cnn", *data, *model, "--fresh")
        with open("run2/metrics.jsonl", encoding="utf8") as file:
            assert ("fallback_steps" not in file.read()) == few
    assert '"confusion"' in use("eval", "cnn", "run2", "run2/valid.images", "--json", "--batch", "5")


def test_train_cnn_with_rounded_stash():
    """In chunks of images, as little memory as there can be."""
    data = images()
    for stash in ["fp8", "fp10"]:
        model = [*CNN[:-2], "--stash", stash]
        plan = ebb("plan", "cnn", *data, *model, "--threads", "4", "--json").json()
        train("cnn", *data, *model, "--memory", str(plan["least_bytes"]), "--fresh")


def test_bench():
    for kind, sizes in (("lm", ["--hidden", "24", "--vocab", "300", "--bptt", "6", "--batch", "6"]),
                        ("nmt", ["--hidden", "16", "--vocab", "100", "--src-len", "5", "--tgt-len", "5", "--batch", "6"])):
        same([ebb("bench", kind, *sizes, "--steps", "3", "--threads", threads, "--json").json()["weights_hash"] for threads in COUNTS])


def test_profile_and_tune():
    """Clocks and measurements of many members at once."""
    for threads in COUNTS:
        ebb("bench", "lm", "--hidden", "24", "--vocab", "300", "--bptt", "6", "--batch", "6", "--steps", "3", "--threads", threads, "--profile")
        ebb("tune", "lm", "--layers", "1", "--hidden", "8", "--vocab", "40", "--bptt", "3", "--batch", "3", "--threads", threads,
            "--tune", "times" + threads)


if __name__ == "__main__":
    main(globals())
