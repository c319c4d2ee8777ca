"""Bad input, each with one clear line and the right exit code; and safetensors files of all sorts."""
import json
import os
import random
import resource
import struct
import subprocess

from ebbtest import EBB, SANITIZED, TINY, ebb, main, refused, text, write


def train(code, path, *args, says=()):
    return refused(code, "train", "lm", *TINY, "--steps", "2", "--quiet", "--train", path, *args, says=says)


def test_text_that_is_none():
    train(3, write("empty", ""), says="empty")
    train(3, "missing", says="missing")
    train(3, write("one", "\n"), says=["one", "1 token"])
    train(3, write("byte", "a"), "--tokens", "byte", "--out", "byte.run", says="1 token")
    os.mkdir("folder")
    train(3, "folder", says="folder")
    train(3, text("good"), "--valid", "missing", says="missing")
    train(3, text("good"), "--valid", "empty", "--out", "other", says="empty")
    refused(3, "plan", "lm", *TINY, "--train", "missing", says="missing")


def test_binary_garbage():
    dice = random.Random(1)
    garbage = write("garbage", bytes(dice.randrange(256) for _ in range(20000)))
    train(3, garbage, says="garbage")
    ebb("train", "lm", *TINY, "--steps", "2", "--quiet", "--train", garbage, "--tokens", "byte", "--vocab", "all")


def test_vocabulary_larger_than_the_budget():
    many = write("many", "".join("word%d\n" % i for i in range(60000)))
    line = train(4, many, "--vocab", "all", "--memory", "1M", "--out", "b")
    assert any(char.isdigit() for char in line)


def test_impossible_options():
    good = text("good")
    train(2, good, "--lr", "nan", says="--lr")
    train(2, good, "--schedule", "plateau", says="--valid")
    train(4, good, "--memory", "1000", says=["1000 bytes", "least"])
    refused(4, "train", "lm", *TINY, "--train", good, "--memory", "1000", "--out", "small", says=["1000 bytes", "least"])
    assert "bytes by kind" in ebb("train", "lm", *TINY, "--train", good, "--memory", "1000", "--out", "small", "--verbose", expect=4).err
    train(6, good, "--lr", "1e9", "--weight-decay", "0.9", "--steps", "200", "--out", "diverged", says="finite")
    write("file", "")
    train(7, good, "--out", "file/run", says="file")


def test_eval_and_generate_need_a_run():
    good = text("good")
    refused(5, "eval", "lm", "nowhere", good, says="nowhere")
    refused(5, "generate", "nowhere", says="nowhere")
    ebb("train", "lm", *TINY, "--steps", "3", "--quiet", "--train", good, "--valid", good, "--out", "run")
    refused(3, "eval", "lm", "run", "missing", says="missing")
    refused(3, "eval", "lm", "run", write("empty", ""), says="empty")
    measured = ebb("eval", "lm", "run", good, "--json").json()
    assert measured["tokens"] > 0 and measured["token_perplexity"] > 1 and measured["words"] == 300 * (8 + 1)
    assert measured["planned_peak_bytes"] == measured["measured_peak_bytes"]
    assert "token perplexity" in ebb("eval", "lm", "run", good).out
    first = ebb("generate", "run", "--length", "20", "--seed", "7").out
    assert first == ebb("generate", "run", "--length", "20", "--seed", "7", "--threads", "2").out and len(first) > 20
    assert first != ebb("generate", "run", "--length", "20", "--seed", "8").out
    ebb("generate", "run", "--length", "5", "--temperature", "0", "--prompt", "w1 w2")
    config = open("run/config", encoding="utf8").read()
    for line, says in [("layers = 1\nbptt = 65536", "65536"), ("tie = true\nembed = 7", "--tie"), ("batch = 3\nshards = 2", "--shards")]:
        write("run/config", config + line + "\n")
        for command in [["generate", "run"], ["eval", "lm", "run", good], ["report", "run", "page.html"]]:
            refused(5, *command, says=["run/config: ", says])
    write("run/config", config)
    refused(2, "eval", "lm", "run", good, "--batch", "3", "--shards", "2", says="--shards")
    write("run/config", "hidden = -4\n")
    refused(5, "generate", "run", says=["run/config:1: hidden", "-4"])


def test_generate_among_the_likeliest():
    good = text("good")
    ebb("train", "lm", *TINY, "--steps", "3", "--quiet", "--train", good, "--out", "run")
    write_60 = ["generate", "run", "--length", "60", "--seed", "3"]
    free, greedy = ebb(*write_60).out, ebb(*write_60, "--temperature", "0").out
    assert ebb(*write_60, "--top-k", "1").out == greedy == ebb(*write_60, "--top-p", "1e-9").out
    some = ebb(*write_60, "--top-k", "5", "--top-p", "0.8", "--temperature", "1.2").out
    assert some == ebb(*write_60, "--top-k", "5", "--top-p", "0.8", "--temperature", "1.2", "--threads", "2").out
    assert some not in (free, greedy) and ebb(*write_60, "--top-k", "100000").out == free == ebb(*write_60, "--top-p", "1").out
    lines = ebb(*write_60, "--length", "2000").out.splitlines()
    assert len(lines) > 2 and ebb(*write_60, "--length", "2000", "--stop-at-eos").out.splitlines() == lines[:1]
    for wrong in [["--top-k", "0"], ["--top-k", "-1"], ["--top-p", "0"], ["--top-p", "1.1"], ["--top-p", "nan"]]:
        refused(2, "generate", "run", *wrong, says=wrong[0])


def test_prompts():
    good = text("good")
    for tokens in ["word", "char", "byte"]:
        ebb("train", "lm", *TINY, "--steps", "3", "--quiet", "--train", good, "--tokens", tokens, "--out", tokens)
        plain = ebb("generate", tokens, "--length", "9").out
        assert plain == ebb("generate", tokens, "--length", "9", "--prompt", "").out
        for typed in ["w1 w2", "nobody knows", "none", "w1 N\u00e4chte\nw2", "<unk>"]:
            said = ebb("generate", tokens, "--length", "3", "--prompt", typed).out
            assert said.startswith(typed) and len(said) > len(typed), (tokens, typed, said)
    assert "text to go on from" in ebb("generate", "--help").out


def test_no_memory_has_its_own_exit_code():
    """The weights alone are more than the address space."""
    if SANITIZED:
        return  # its own memory is more than that
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    big = ["bench", "lm", "--layers", "1", "--hidden", "400", "--vocab", "1000000", "--batch", "1", "--bptt", "2", "--steps", "1", "--memory", "20G"]
    assert len(ebb(*big, expect=8, preexec_fn=limit).err.splitlines()) == 1


def test_byte_order_marks():
    plain, marked = "w1 w2 w3\nw2 w3\n" * 20, "\ufeff" + "w1 w2 w3\nw2 w3\n" * 20
    write("plain", plain), write("marked", marked)
    for tokens in ["word", "char"]:
        for name in ["plain", "marked"]:
            ebb("train", "lm", *TINY, "--steps", "2", "--quiet", "--train", name, "--tokens", tokens, "--out", name + tokens)
        assert open("plain" + tokens + "/vocab.txt", "rb").read() == open("marked" + tokens + "/vocab.txt", "rb").read()
    write("config", "\ufefflayers = 1\nhidden = 8\n")
    ebb("plan", "lm", "--config", "config")


def test_damaged_run():
    good = text("good")
    ebb("train", "lm", *TINY, "--steps", "3", "--quiet", "--train", good, "--out", "run")
    weights = open("run/best.safetensors", "rb").read()
    for damaged in [weights[:-1], weights[:100], b"", weights[:8] + b"}" + weights[9:]]:
        os.remove("run/best.safetensors")
        write("run/best.safetensors", damaged)
        refused(5, "generate", "run", says="best.safetensors")


def poison(path, tensor, value):
    """The file with the last number of a tensor replaced."""
    data = open(path, "rb").read()
    header = 8 + struct.unpack("<Q", data[:8])[0]
    end = header + json.loads(data[8:header])[tensor]["data_offsets"][1]
    return data[:end - 4] + struct.pack("<f", value) + data[end:]


def test_weights_that_are_not_finite():
    good = text("good")
    ebb("train", "lm", *TINY, "--steps", "1", "--quiet", "--train", good, "--out", "run")
    ebb("train", "nmt", "--hidden", "8", "--batch", "4", "--steps", "1", "--quiet", "--train", good, good, "--out", "pairs")
    for folder, vocabs, tensor in [("run", ["vocab.txt"], "rnn.weight_hh_l0"), ("pairs", ["vocab.src.txt", "vocab.tgt.txt"], "out.bias")]:
        for value in [float("nan"), float("inf"), float("-inf")]:
            os.makedirs("bad", exist_ok=True)
            for name in ["config", *vocabs]:
                write("bad/" + name, open(f"{folder}/{name}", "rb").read())
            write("bad/best.safetensors", poison(folder + "/best.safetensors", tensor, value))
            says = ["best.safetensors", tensor, "not finite"]
            if folder == "run":
                refused(5, "eval", "lm", "bad", good, says=says)
                refused(5, "generate", "bad", says=says)
                refused(5, "train", "lm", *TINY, "--quiet", "--train", good, "--init", "bad/best.safetensors", "--out", "new", says=says)
            else:
                refused(5, "eval", "nmt", "bad", good, good, says=says)
                refused(5, "decode", "bad", says=says)
    ebb("generate", "run", "--length", "1")


def test_a_flipped_bit_is_noticed():
    good = text("good")
    ebb("train", "lm", *TINY, "--steps", "3", "--quiet", "--train", good, "--valid", good, "--out", "run")
    for name in ["run/best.safetensors", "run/vocab.txt"]:
        data = open(name, "rb").read()
        with open(name, "r+b") as file:  # in place: the file has several names
            file.seek(len(data) - 5)
            file.write(bytes([data[-5] ^ 1]))
        refused(5, "generate", "run", "--quiet", says="run/")
        refused(5, "eval", "lm", "run", good, "--quiet", says="run/")
        with open(name, "r+b") as file:
            file.write(data)
    ebb("generate", "run", "--length", "3")


def test_only_regular_files_are_replaced():
    os.mkfifo("pipe")
    refused(7, "data", "grammar", "pipe", says=["pipe", "regular"])
    write("target", "old")
    os.symlink("target", "link")
    ebb("data", "grammar", "link", "--lines", "3")
    assert os.path.islink("link") and len(open("target").read().splitlines()) == 3


def test_generate_ends_with_its_reader():
    good = text("good")
    ebb("train", "lm", *TINY, "--steps", "3", "--quiet", "--train", good, "--out", "run")
    process = subprocess.Popen([EBB, "generate", "run", "--length", "1000000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(timeout=60) == 7


def safetensors(header, data=b""):
    body = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(body)) + body + data


def test_inspect_shows_what_is_there():
    header = {"b": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "a": {"dtype": "I64", "shape": [], "data_offsets": [24, 32]},
              "__metadata__": {"format": "pt"}}
    path = write("good.safetensors", safetensors(header, bytes(32)))
    shown = ebb("inspect", path).out
    assert "[2, 3]" in shown and "I64" in shown and "2 tensors, 32 bytes" in shown and "format: pt" in shown
    listed = ebb("inspect", path, "--json").json()
    assert listed["total_bytes"] == 32 and listed["notes"] == {"format": "pt"}
    assert listed["tensors"] == [{"name": "a", "type": "I64", "shape": [], "bytes": 8}, {"name": "b", "type": "F32", "shape": [2, 3], "bytes": 24}]


def test_inspect_prints_nets():
    """A net that is printed and read again is the same net."""
    for name in ["lenet", "googlenet", "resnet20_cifar", "vgg16_bn"]:
        text = ebb("inspect", name).out
        assert text.startswith("input ") and ebb("inspect", write("net.txt", text)).out == text
        assert ebb("inspect", "net.txt", "--json").json()["net"] == text
        plans = [ebb("plan", "cnn", "--net", net, "--batch", "8", "--threads", "1", "--json").json() for net in (name, "net.txt")]
        assert plans[0]["plan_hash"] == plans[1]["plan_hash"], name
    write("d.cfg", "[net]\nheight=8\nwidth=8\nchannels=1\n[connected]\noutput=2\nactivation=linear\n[softmax]\n")
    assert "fc 2" in ebb("inspect", "d.cfg").out
    refused(3, "inspect", write("bad.txt", "input 1 8 8\nconvv 3\n"), says=["bad.txt", "2", "convv"])
    refused(7, "inspect", "absent.cfg", says="absent.cfg")


def test_inspect_refuses_what_is_wrong():
    def one(**changes):
        return safetensors({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}, bytes(8))

    bad = [b"", b"short", safetensors(b"{}", b"left over"), safetensors(b"[]"), safetensors(b"{"), struct.pack("<Q", 1 << 63) + b"{}",
           struct.pack("<Q", 1000) + b"{}", one(dtype="F33"), one(dtype=4), one(shape=[3]), one(shape=[-2]), one(shape="2"),
           one(shape=[1 << 62, 1 << 62]), one(data_offsets=[0, 9]), one(data_offsets=[8, 0]), one(data_offsets=[-8, 0]), one(data_offsets=[0]),
           one()[:-1], one() + b"x"]
    for number, content in enumerate(bad):
        refused(5, "inspect", write(f"bad{number}.safetensors", content), says=f"bad{number}.safetensors")
    refused(7, "inspect", "absent.safetensors", says="absent.safetensors")


def test_inspect_survives_every_flipped_header_bit():
    good = safetensors({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, bytes(8))
    for bit in range(0, (len(good) - 8) * 8, 5):
        changed = bytearray(good)
        changed[bit // 8] ^= 1 << bit % 8
        write("flipped", bytes(changed))
        code = os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", f"'{EBB}' inspect flipped >out 2>err"])
        lines = open("err", encoding="utf8", errors="replace").read().splitlines()
        assert (code == 0 and not lines) or (code == 5 and len(lines) == 1), (bit, code, lines)


main(globals())
