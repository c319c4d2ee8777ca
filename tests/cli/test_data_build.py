"""ebb data build: what it makes and says, training finds it and keeps it, damage is mended, a run
that is in the folder stays what it was, wrong use."""
import os
import random
import struct

from ebbtest import TINY, digest, ebb, main, refused, text, weights, write

NMT = ["--hidden", "8", "--batch", "4", "--threads", "1"]


def pairs(lines=60, seed=1):
    dice = random.Random(seed)
    for name, first in [("s", "a"), ("t", "b")]:
        write(name, "".join(" ".join(first + str(dice.randrange(9)) for _ in range(1 + dice.randrange(8))) + "\n" for _ in range(lines)))


def build(*args):
    found = ebb("data", "build", *args, "--json").json()
    return {os.path.basename(f["path"]): f for f in found["files"]}


def state(folder):
    """Which files there are: another number, time or content means another file."""
    return {name: (os.stat(f"{folder}/{name}").st_ino, os.stat(f"{folder}/{name}").st_mtime_ns, digest(f"{folder}/{name}"))
            for name in sorted(os.listdir(folder))}


def tokens_of(folder):
    return {name: what for name, what in state(folder).items() if name.endswith(".tokens")}


def token_file(path):
    """The ids and the lengths, as tokens.h has it: ids, lengths, 14 numbers."""
    with open(path, "rb") as file:
        data = file.read()
    fields = struct.unpack("<14Q", data[-112:])
    count, lines = fields[2], fields[3]
    cells = struct.unpack(f"<{count + lines}I", data[:-112])
    return cells[:count], cells[count:]


def test_one_text():
    write("a", "x y x\n\ny z\nlast line")
    files = build("--lm", "a", "--valid", "a", "--out", "run")
    assert sorted(files) == ["train.tokens", "valid.tokens", "vocab.txt"] and sorted(os.listdir("run")) == ["lock", *sorted(files)]
    train = files["train.tokens"]
    assert (train["lines"], train["tokens"], train["unknown"]) == (4, 11, 0) and train["made"] and train["kind"] == "tokens"
    assert train["bytes"] == os.path.getsize("run/train.tokens") == 4 * 11 + 4 * 4 + 112
    ids, lengths = token_file("run/train.tokens")
    assert lengths == (4, 1, 3, 3) and [i for i, at in enumerate(ids) if at == 1] == [3, 4, 7, 10]
    vocab = files["vocab.txt"]
    assert vocab["entries"] == 7 and vocab["bytes"] == os.path.getsize("run/vocab.txt") and vocab["made"]
    assert not any(f["made"] for f in build("--lm", "a", "--valid", "a", "--out", "run").values())
    shown = ebb("data", "build", "--lm", "a", "--out", "run", "--vocab", "3").out
    assert "run/vocab.txt: made, 3 entries" in shown and "run/train.tokens: made, 4 lines, 11 tokens, 5 unknown (45.5%)" in shown
    assert ebb("data", "build", "--lm", "a", "--out", "run", "--quiet").out == ""
    chars = build("--lm", "a", "--out", "run", "--tokens", "char")["train.tokens"]
    assert chars["made"] and chars["tokens"] == 21 and token_file("run/train.tokens")[1] == (6, 1, 4, 10)
    assert build("--lm", "a", "--out", "run", "--tokens", "byte")["train.tokens"]["tokens"] == 20
    assert token_file("run/train.tokens")[1] == (6, 1, 4, 9)
    write("c", "train = a\nby-sentence = true\nmax-len = 50\nbatch = 7\ntokens = char\nout = conf\n")
    assert build("--config", "c")["train.tokens"]["tokens"] == 21 and os.path.exists("conf/vocab.txt")


def test_training_keeps_what_was_built():
    text("a", 200)
    text("b", 40, seed=2)
    run = ["train", "lm", "--train", "a", "--valid", "b", *TINY, "--epochs", "1", "--vocab", "20", "--quiet"]
    for name, more in [("plain", []), ("sentences", ["--by-sentence"])]:
        build("--lm", "a", "--valid", "b", "--vocab", "20", "--out", name)
        before, vocab = tokens_of(name), digest(name + "/vocab.txt")
        ebb(*run, *more, "--out", name)
        assert tokens_of(name) == before and len(before) == 2 and digest(name + "/vocab.txt") == vocab
        ebb(*run, *more, "--out", name + "-alone")
        assert weights(name) == weights(name + "-alone")
        assert [v[2] for v in tokens_of(name).values()] == [v[2] for v in tokens_of(name + "-alone").values()]


def test_training_keeps_pairs():
    pairs()
    for name, more in [("two", ["--src-vocab", "7", "--max-len", "6"]), ("one", ["--tie-src"])]:
        files = build("--nmt", "s", "t", "--valid", "t", "s", *more, "--out", name)
        vocabs = ["vocab.txt"] if name == "one" else ["vocab.src.txt", "vocab.tgt.txt"]
        assert sorted(files) == ["train.src.tokens", "train.tgt.tokens", "valid.src.tokens", "valid.tgt.tokens", *vocabs]
        assert all(f["lines"] == 60 for f in files.values() if f["kind"] == "tokens")
        before = tokens_of(name)
        run = ["train", "nmt", "--train", "s", "t", "--valid", "t", "s", *more, *NMT, "--steps", "6", "--quiet"]
        ebb(*run, "--out", name)
        assert tokens_of(name) == before and len(before) == 4
        ebb(*run, "--out", name + "-alone")
        assert weights(name) == weights(name + "-alone")
        # Once more: the run stays as it is.
        before = state(name)
        assert not any(f["made"] for f in build("--nmt", "s", "t", "--valid", "t", "s", *more, "--out", name).values())
        assert state(name) == before


def test_damage_is_mended():
    text("a", 50)
    build("--lm", "a", "--out", "run")
    good, size = digest("run/train.tokens"), os.path.getsize("run/train.tokens")
    with open("run/train.tokens", "rb") as file:
        data = file.read()
    for at in [0, 4 * 449, 4 * 450, size - 112 - 1, *range(size - 112, size, 8)]:
        write("run/train.tokens", data[:at] + bytes([data[at] ^ 4]) + data[at + 1:])
        files = build("--lm", "a", "--out", "run")
        assert files["train.tokens"]["made"] and not files["vocab.txt"]["made"] and digest("run/train.tokens") == good
    for broken in [data[:-1], data[:-112], data[4:], data + b"\0", b""]:
        write("run/train.tokens", broken)
        assert build("--lm", "a", "--out", "run")["train.tokens"]["made"] and digest("run/train.tokens") == good
    words = digest("run/vocab.txt")
    for broken in [b"", b"<unk>\n<eos>\nsame\nsame\n"]:
        write("run/vocab.txt", broken)
        files = build("--lm", "a", "--out", "run")
        assert files["vocab.txt"]["made"] and not files["train.tokens"]["made"] and digest("run/vocab.txt") == words
    # The same in front of training.
    run = ["train", "lm", "--train", "a", *TINY, "--steps", "5", "--quiet"]
    ebb(*run, "--out", "whole")
    write("run/train.tokens", data[:40] + b"\xff" + data[41:])
    ebb(*run, "--out", "run")
    assert digest("run/train.tokens") == good and weights("run") == weights("whole")


def test_vocabularies_of_a_run_are_mended():
    text("a", 60)
    pairs()
    runs = [("lm", ["--lm", "a"], ["train", "lm", "--train", "a", *TINY], ["vocab.txt"]),
            ("nmt", ["--nmt", "s", "t"], ["train", "nmt", "--train", "s", "t", *NMT], ["vocab.src.txt", "vocab.tgt.txt"])]
    for out, texts, run, names in runs:
        ebb(*run, "--steps", "4", "--quiet", "--out", out)
        before = {name: digest(f"{out}/{name}") for name in os.listdir(out)}
        for name in names:
            for broken in [b"", b"<unk>\n<eos>\nsame\nsame\n", b"<unk>\n<eos>\nother\n", None]:
                os.remove(f"{out}/{name}") if broken is None else write(f"{out}/{name}", broken)
                refused(5, *run, "--steps", "6", "--quiet", "--out", out)
                files = build(*texts, "--out", out)
                assert files[name]["made"] and not any(f["made"] for other, f in files.items() if other != name)
                assert {name: digest(f"{out}/{name}") for name in os.listdir(out)} == before
        ebb(*run, "--steps", "6", "--quiet", "--out", out)


def test_a_run_of_others_stays():
    text("a", 60)
    text("b", 60, seed=2)
    with open("a", encoding="utf8") as file:
        lines = file.read().splitlines(True)
    write("turned", "".join(reversed(lines)))  # the same words as often, in another order
    run = ["train", "lm", "--train", "a", "--valid", "b", *TINY, "--epochs", "2", "--quiet"]
    ebb(*run, "--out", "run")
    before = state("run")
    other = ["run: holds a run that was started with another text or vocabulary", "--out"]
    refused(2, "data", "build", "--lm", "b", "--out", "run", says=other)
    refused(2, "data", "build", "--lm", "turned", "--out", "run", says=other)
    refused(2, "data", "build", "--lm", "a", "--valid", "turned", "--out", "run", says=other)
    refused(2, "data", "build", "--lm", "a", "--vocab", "9", "--out", "run", says=other)
    refused(2, "data", "build", "--lm", "a", "--tokens", "char", "--out", "run", says=other)
    refused(2, "data", "build", "--nmt", "a", "a", "--out", "run", says=other)
    assert state("run") == before
    assert not any(f["made"] for f in build("--lm", "a", "--valid", "b", "--out", "run").values())
    assert state("run") == before
    os.remove("run/valid.tokens")  # of its own text: may be made again
    files = build("--lm", "a", "--valid", "b", "--out", "run")
    assert files["valid.tokens"]["made"] and not files["train.tokens"]["made"]
    manifests = [name for name in before if name.endswith(".json")]
    assert manifests
    for name in manifests:
        write("run/" + name, "{}")
    before = state("run")
    result = ebb("data", "build", "--lm", "a", "--out", "run", expect=5)
    assert result.out == "" and state("run") == before


def test_wrong_use():
    pairs()
    text("a", 20)
    write("empty", "")
    write("short", "x\n")
    write("nul", b"a\n\0b\n")
    where = ["--out", "none"]
    refused(2, "data", "build", *where, says="nothing to build")
    refused(2, "data", "build", "--nmt", "s", *where, says="nothing to build")
    refused(2, "data", "build", "--lm", "a", "--out", says="--out needs a value")
    refused(2, "data", "build", "--lm", "a", "--out", "", says="empty")
    refused(2, "data", "build", "--nmt", "s", "t", "--valid", "s", *where, says="pairs of files")
    refused(2, "data", "build", "--lm", "a", "--batch-tokens", "9", *where, says="takes no --batch-tokens")
    refused(2, "data", "build", "--lm", "a", "--hidden", "9", *where, says="takes no --hidden")
    refused(2, "data", "build", "--nmt", "s", "t", "--tie-src", "--src-vocab", "5", *where, says="one vocabulary")
    refused(3, "data", "build", "--lm", "absent", *where, says="absent: No such file")
    refused(3, "data", "build", "--lm", "a", "--valid", "absent", *where, says="absent: No such file")
    refused(3, "data", "build", "--lm", "empty", *where, says="empty")
    refused(3, "data", "build", "--lm", "a", "--valid", "empty", *where, says="empty")
    refused(3, "data", "build", "--lm", "nul", *where, says="nul:2: holds a NUL byte")
    refused(3, "data", "build", "--nmt", "s", "short", *where, says=["short has 1 lines", "s has 60"])
    refused(3, "data", "build", "--nmt", "s", "t", "--valid", "s", "short", *where, says="short has 1 lines")
    refused(3, "data", "build", "--nmt", "empty", "t", *where, says="empty")
    refused(3, "data", "build", "--nmt", "s", "t", "--max-len", "1", "--valid", "s", "a", *where)
    refused(7, "data", "build", "--lm", "a", "--out", "short", says="short")
    refused(7, "data", "build", "--lm", "a", "--out", "short/deep", says="short")
    assert not os.path.exists("none/vocab.txt")
    build("--lm", "a", "--out", "deep/er")
    assert os.path.exists("deep/er/train.tokens")


if __name__ == "__main__":
    main(globals())
