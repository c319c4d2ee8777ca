"""Translation models: pairs of texts good and bad, a run's life, the same bits however it is run."""
import json
import os
import random
import signal

from ebbtest import digest, ebb, main, metrics, pairs, refused, start, wait_for_step, weights, write

SIZES = ["--hidden", "8", "--batch", "4", "--threads", "1", "--feed", "--dropout", "0.2", "--smoothing", "0.1", "--lr", "0.01"]


def command(steps, out, *more):
    return ["train", "nmt", *SIZES, "--train", "t.src", "t.tgt", "--valid", "v.src", "v.tgt", "--steps", str(steps), "--save-every", "7",
            "--log-every", "10", "--out", out, *more]


def texts():
    pairs("t")
    pairs("v", 11, seed=2, longest=12)


def test_a_run_leaves_what_it_promises():
    texts()
    run = ebb(*command(60, "run"))
    assert {"metrics.jsonl", "best.safetensors", "last.safetensors", "vocab.src.txt", "vocab.tgt.txt", "config"} <= set(os.listdir("run"))
    assert not [name for name in os.listdir("run") if name.endswith((".index", ".new", ".tmp"))]
    assert "least budget" in run.err and "step 60/60" in run.err and run.out == ""
    lines = metrics("run")
    assert [line["step"] for line in lines] == sorted({line["step"] for line in lines}) and lines[-1]["step"] == 60
    assert any("valid_perplexity" in line for line in lines) and lines[-1]["loss"] < lines[0]["loss"]
    result = ebb(*command(60, "other", "--json", "--quiet"))
    assert result.err == "" and result.json()["steps"] == 60
    assert result.json()["planned_peak_bytes"] == result.json()["measured_peak_bytes"]
    assert weights("run") == weights("other")
    before = digest("run/last.safetensors")
    assert "finished" in ebb(*command(60, "run")).err and digest("run/last.safetensors") == before
    names = [tensor["name"] for tensor in ebb("inspect", "run/best.safetensors", "--json").json()["tensors"]]
    assert {"src_embed.weight", "tgt_embed.weight", "enc.weight_ih_l0_reverse", "dec.weight_hh_l0", "attn.key.weight", "mix.weight",
            "out.bias"} <= set(names)


def test_it_learns_to_translate():
    pairs("t", 400, longest=4)
    pairs("v", 40, seed=2, longest=4)
    result = ebb("train", "nmt", "--hidden", "32", "--batch", "16", "--feed", "--lr", "0.02", "--train", "t.src", "t.tgt", "--valid", "v.src",
                 "v.tgt", "--epochs", "12", "--out", "run", "--json", "--quiet").json()
    assert result["best_perplexity"] < 1.6, result  # 12 words; guessing takes about 8


def test_killed_at_any_moment():
    texts()
    ebb(*command(150, "whole"))
    kills = 0
    for step in [1, 30, 31, 77, 120]:
        process = start(*command(150, "broken"))
        wait_for_step(process, "broken", step)
        process.kill()
        kills += process.wait() == -signal.SIGKILL
    assert kills >= 3
    ebb(*command(150, "broken"))
    assert weights("whole") == weights("broken") and metrics("whole") == metrics("broken")


def test_bits_do_not_depend_on_the_machine():
    texts()
    ebb(*command(40, "whole"))
    least = ebb("plan", *command(40, "run")[1:], "--json").json()["least_bytes"]
    for i, options in enumerate([["--memory", str(least)], ["--threads", "3"], ["--disable", "chunk,layout,batch_time"]]):
        ebb(*command(40, "run%d" % i, *options))
        assert weights("whole") == weights("run%d" % i), options
    refused(4, *command(40, "less", "--memory", str(least - 1), "--quiet"), says=[str(least), "least"])
    assert not os.path.exists("less/best.safetensors")
    ebb(*command(20, "run"))
    ebb(*command(40, "run", "--memory", str(least)))
    assert weights("whole") == weights("run")


def test_bits_of_other_models_too():
    """All layers both ways, sums around layers, a decoder that starts from the encoder's state."""
    texts()
    more = ["--enc-layers", "2", "--dec-layers", "3", "--bidirectional", "--residual", "--init-decoder"]
    ebb(*command(25, "whole", *more))
    translated = ebb("decode", "whole", input=open("v.src", "rb").read()).out
    least = ebb("plan", *command(25, "run", *more)[1:], "--json").json()["least_bytes"]
    for i, options in enumerate([["--memory", str(least)], ["--threads", "3"], ["--disable", "chunk,layout,batch_time"], ["--disable", "fuse,recompute"]]):
        ebb(*command(25, "run%d" % i, *more, *options))
        assert weights("whole") == weights("run%d" % i), options
    for options in [["--batch", "1"], ["--batch", "5", "--threads", "2"]]:
        assert ebb("decode", "whole", *options, input=open("v.src", "rb").read()).out == translated
    ebb(*command(12, "broken", *more))
    ebb(*command(25, "broken", *more))
    assert weights("whole")[0] == weights("broken")[0]
    refused(2, *command(40, "whole", "--quiet", *more[:-1]), says="init-decoder")


def test_the_plan_is_that_of_the_run():
    texts()
    planned = ebb("plan", *command(40, "run")[1:], "--json").json()
    trained = ebb(*command(40, "run", "--json", "--quiet")).json()
    assert planned["peak_bytes"] == trained["planned_peak_bytes"] == trained["measured_peak_bytes"]
    assert "batch 4 x " in ebb("plan", *command(40, "run")[1:]).out


def test_settings_of_another_run():
    texts()
    ebb(*command(20, "run"))
    refused(2, *command(40, "run", "--quiet", "--attention", "dot"), says=["mlp", "dot", "--fresh"])
    refused(2, *command(40, "run", "--quiet", "--max-len", "50"), says=["100", "50"])
    pairs("t", 61)
    refused(2, *command(40, "run", "--quiet"), says=["t.src", "61 pairs, then 60"])
    texts()
    ebb("train", "nmt", "--config", "run/config", "--out", "again", "--quiet")
    assert weights("run") == weights("again")
    config = dict(line.rstrip("\n").split(" = ", 1) for line in open("run/config", encoding="utf8"))
    assert config["model"] == "nmt" and config["train-target"] == "t.tgt" and "bptt" not in config and "src-len" not in config
    refused(2, "train", "lm", "--config", "run/config", "--quiet", says=["run/config:1", "'nmt', not lm"])
    refused(5, "eval", "lm", "run", "t.src", says=["run: is a translation model", "ebb decode"])
    refused(5, "generate", "run", says=["run: is a translation model", "ebb decode"])


def test_joint_vocabulary():
    texts()
    ebb(*command(20, "run", "--quiet", "--tie-src", "--tie"))
    words = open("run/vocab.txt", encoding="utf8").read().split()
    assert words[:2] == ["<unk>", "<eos>"] and sorted(words[2:]) == sorted("%s%d" % (side, i) for side in "st" for i in range(12))
    names = {tensor["name"]: tensor["shape"] for tensor in ebb("inspect", "run/best.safetensors", "--json").json()["tensors"]}
    assert names["tgt_embed.weight"] == [26, 8] and "src_embed.weight" not in names and "out.weight" not in names
    ebb(*command(30, "run", "--quiet", "--tie-src", "--tie"))
    refused(2, *command(20, "other", "--tie-src", "--src-vocab", "7"), says="--tie-src")
    ebb(*command(5, "limited", "--quiet", "--src-vocab", "7"))
    assert len(open("limited/vocab.src.txt").read().split()) == 7 and len(open("limited/vocab.tgt.txt").read().split()) == 14


def test_lines_that_are_left_out():
    texts()
    source, target = open("t.src").read().splitlines(), open("t.tgt").read().splitlines()
    source[4], target[9] = "", "  "
    source[20] = " ".join(["s1"] * 11)
    target[33] = " ".join(["t1"] * 12)
    write("t.src", "\n".join(source))  # the last line is not finished
    write("t.tgt", "\n".join(target) + "\n")
    run = ebb(*command(20, "run", "--max-len", "10"))
    assert "t.src, t.tgt: 2 of 60 lines are empty on a side" in run.err and "first is line 5" in run.err
    assert "t.src, t.tgt: 2 of 60 lines have more than 10 tokens" in run.err and "first is line 21" in run.err
    kept = [i for i in range(60) if i not in (4, 9, 20, 33)]
    write("t.src", "".join(source[i] + "\n" for i in kept))
    write("t.tgt", "".join(target[i] + "\n" for i in kept))
    ebb(*command(20, "without", "--max-len", "10", "--quiet"))
    # The vocabularies count every line: the words left out are common ones.
    assert digest("run/vocab.src.txt") != "" and json.load(open("run/ckpt-20.json"))["train"]["train_tokens"] == 56
    assert json.load(open("without/ckpt-20.json"))["train"]["train_tokens"] == 56


def test_texts_that_do_not_belong_together():
    texts()
    write("short.tgt", "".join(open("t.tgt").readlines()[:41]))
    refused(3, "train", "nmt", *SIZES, "--train", "t.src", "short.tgt", "--quiet", says=["short.tgt has 41 lines", "t.src has 60", "short.tgt:41"])
    refused(3, "train", "nmt", *SIZES, "--train", "short.tgt", "t.src", "--quiet", says=["short.tgt has 41 lines", "t.src has 60", "short.tgt:41"])
    refused(3, "plan", "nmt", *SIZES, "--train", "t.src", "short.tgt", says="short.tgt:41")
    refused(3, "train", "nmt", *SIZES, "--train", "t.src", "t.tgt", "--valid", "t.src", "short.tgt", "--quiet", says="short.tgt:41")
    refused(3, "train", "nmt", *SIZES, "--train", write("empty", ""), "t.tgt", "--quiet", says="empty")
    refused(3, "train", "nmt", *SIZES, "--train", "t.src", "missing", "--quiet", says="missing")
    refused(3, "train", "nmt", *SIZES, "--train", write("blank", "\n\n"), write("blank2", "\n\n"), "--quiet", says=["none of the 2 pairs", "empty"])
    refused(3, "train", "nmt", *SIZES, "--train", "t.src", "t.tgt", "--valid", "blank", "blank2", "--quiet", says="none of the 2 pairs")
    refused(3, "train", "nmt", *SIZES, "--train", write("eos", "a b\nc <eos> d\n"), write("two", "a\nb\n"), "--quiet", says=["eos:2", "<eos>"])
    refused(3, "train", "nmt", *SIZES, "--train", write("nul", b"a\0b\n"), write("one", "a\n"), "--quiet", says="nul:1")
    refused(3, "train", "nmt", *SIZES, "--tokens", "char", "--train", write("bytes", b"a\n\xff\xfe\n"), "two", "--quiet", says="bytes:2")
    refused(2, "train", "nmt", *SIZES, "--train", "t.src", "--quiet", says="--train SRC TGT")
    refused(2, "train", "nmt", *SIZES, "--train", "t.src", "t.tgt", "--valid", "v.src", "--quiet", says="--valid SRC TGT")
    refused(2, "train", "nmt", *SIZES, "--train", "t.src", "t.tgt", "t.tgt", "--quiet", says="unexpected argument")
    refused(2, "train", "nmt", *SIZES, "--train", "t.src", "t.tgt", "--schedule", "plateau", "--quiet", says="--valid")
    for bad in ["0", "100000"]:
        refused(2, "train", "nmt", *SIZES, "--train", "t.src", "t.tgt", "--max-len", bad, says="--max-len")


def test_a_very_long_line():
    texts()
    write("t.src", open("t.src").read() + "s1 " * 100000 + "\n")
    write("t.tgt", open("t.tgt").read() + "t1\n")
    run = ebb(*command(10, "run"))
    assert "1 of 61 lines have more than 100 tokens" in run.err and "line 61" in run.err


def test_one_pair_and_characters():
    write("t.src", "one two three\n")
    write("t.tgt", "eins zwei drei\n")
    result = ebb("train", "nmt", *SIZES, "--train", "t.src", "t.tgt", "--steps", "3", "--out", "words", "--json", "--quiet").json()
    assert result["epochs"] == 3
    ebb("train", "nmt", *SIZES, "--train", "t.src", "t.tgt", "--tokens", "char", "--steps", "3", "--out", "chars", "--quiet")
    assert "\\s" in open("chars/vocab.src.txt").read().split("\n")
    ebb("train", "nmt", *SIZES, "--train=t.src", "t.tgt", "--steps", "3", "--out", "equals", "--quiet")
    ebb("train", "nmt", *SIZES, "--train", "t.src", "--train-target", "t.tgt", "--steps", "3", "--out", "apart", "--quiet")
    assert weights("words") == weights("equals") == weights("apart")


def test_tools_of_plan_and_bench():
    small = ["--hidden", "16", "--vocab", "60", "--batch", "4", "--src-len", "4", "--tgt-len", "5", "--feed", "--threads", "1"]
    seen = ebb("bench", "nmt", *small, "--steps", "2", "--profile", "--json").json()["profile"]
    assert abs(sum(row["seconds"] for row in seen["phases"]) - seen["observed_seconds"]) <= 1e-6 * seen["observed_seconds"]
    assert {"src.embed", "enc.l0.fwd", "enc.l0.rev", "tgt.embed", "dec.l0", "attn", "mix", "out"} <= {row["name"] for row in seen["layers"]}
    assert "slowest instructions" in ebb("bench", "nmt", *small, "--steps", "1", "--profile").out
    assert ebb("plan", "nmt", *small, "--explain", "--json").json()["products"]
    assert "products of a step" in ebb("plan", "nmt", *small, "--explain").out
    dumped = ebb("plan", "nmt", *small, "--dump-after", "infer").out
    assert "# after infer" in dumped and "mask_softmax" in dumped and '@ "attn" t=4' in dumped
    tuned = ebb("tune", "nmt", *small, "--tune", "store", "--seconds", "600", "--json").json()
    assert tuned["measured"] == len(tuned["entries"]) > 3 and tuned["left"] == 0
    # What comes from a busy machine is measured up to three times, then it stays.
    again = [ebb("bench", "nmt", *small, "--steps", "1", "--tune", "store", "--verbose").err for _ in range(4)]
    assert "tuning" not in again[-1], again
    texts()
    ebb(*command(5, "run", "--tune", "store", "--quiet"))
    ebb(*command(5, "other", "--quiet"))
    assert weights("run") == weights("other")


main(globals())
