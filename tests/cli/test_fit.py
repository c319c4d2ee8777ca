"""--batch auto: the largest batch that fits, found once and kept; and sizes that fit nothing."""
import json
import os

from ebbtest import SANITIZED, TINY, ebb, main, metrics, refused, start, text, wait_for_step, weights, write

LM = ["--layers", "1", "--hidden", "8", "--bptt", "5", "--threads", "1"]
NMT = ["--hidden", "8", "--vocab", "40", "--src-len", "6", "--tgt-len", "5", "--threads", "1"]


def following(batch):
    """What is tried after a batch: every one up to 16, multiples of 8 above."""
    return batch + 1 if batch < 16 else batch + 8


def check_largest(kind, *options, memory):
    """The batch found fits, the next does not. Returns it."""
    found = ebb("plan", kind, *options, "--batch", "auto", "--memory", memory, "--json").json()
    batch = found["batch"]
    assert batch <= 16 or batch % 8 == 0
    assert found["least_bytes"] <= found["peak_bytes"] <= found["budget_bytes"] == memory
    same = ebb("plan", kind, *options, "--batch", batch, "--memory", memory, "--json").json()
    assert same["batch"] == batch and same["plan_hash"] == found["plan_hash"]
    ebb("plan", kind, *options, "--batch", following(batch), "--memory", memory, "--json", expect=4)
    return batch


def least(kind, *options):
    return ebb("plan", kind, *options, "--json").json()["least_bytes"]


def test_the_largest_that_fits():
    for kind, options in [("lm", LM + ["--vocab", "30"]), ("nmt", NMT), ("nmt", NMT + ["--disable", "recompute", "--disable", "chunk"])]:
        for batch in [1, 2, 11, 16, 24, 200]:
            bytes_ = least(kind, *options, "--batch", batch)
            found = check_largest(kind, *options, memory=bytes_)
            assert found >= batch or batch > 16, (kind, batch, found)
    # Fewer bytes kept, more rows.
    bytes_ = least("nmt", *NMT, "--batch", 24, "--disable", "recompute", "--disable", "chunk")
    assert check_largest("nmt", *NMT, memory=bytes_) > 24


def test_it_says_what_it_found():
    bytes_ = least("nmt", *NMT, "--batch", 24)
    shown = ebb("plan", "nmt", *NMT, "--batch", "auto", "--memory", bytes_)
    assert "batch 24 x 6+5" in shown.out and "batch 24 fits in " in shown.err
    assert ebb("plan", "nmt", *NMT, "--batch", "auto", "--memory", bytes_, "--quiet").err == ""
    assert "batch 4096 fits in 64.0 GiB; auto takes no larger one" in ebb("plan", "lm", *LM, "--batch", "auto", "--memory", "64G", "--vocab", "9").err
    for kind, options in [("lm", LM + ["--vocab", "30"]), ("nmt", NMT)]:
        bytes_ = least(kind, *options, "--batch", 3)
        seen = ebb("bench", kind, *options, "--batch", "auto", "--memory", bytes_, "--steps", "1", "--json").json()
        same = ebb("bench", kind, *options, "--batch", seen["batch"], "--memory", bytes_, "--steps", "1", "--json").json()
        assert seen["batch"] >= 3 and seen["weights_hash"] == same["weights_hash"] and seen["measured_peak_bytes"] <= bytes_
        assert SANITIZED or seen["vm_hwm_bytes"] <= bytes_ + (32 << 20)
        assert "batch  " in ebb("bench", kind, *options, "--batch", "auto", "--memory", bytes_, "--steps", "1").out
    for command in ["train lm", "plan nmt", "bench nmt"]:
        told = " ".join(ebb("help", *command.split()).out.split())
        assert "auto: as many as fit in --memory" in told and "the time a step takes grows" in told


def test_shards_divide_it():
    options = [*LM, "--vocab", "30", "--shards", "3"]
    for batch in [3, 24, 96]:
        bytes_ = least("lm", *options, "--batch", batch)
        found = ebb("plan", "lm", *options, "--batch", "auto", "--memory", bytes_, "--json").json()["batch"]
        assert found % 3 == 0 and found >= batch
        ebb("plan", "lm", *options, "--batch", 3 * following(found // 3), "--memory", bytes_, "--json", expect=4)
    refused(4, "plan", "lm", *options, "--batch", "auto", "--memory", "1000", says="not even a batch of 3 fits")


def test_measured_times_change_nothing():
    options = ["--hidden", "64", "--vocab", "200", "--src-len", "5", "--tgt-len", "5", "--threads", "2"]
    for batch in [7, 40]:
        bytes_ = least("nmt", *options, "--batch", batch)
        plain = ebb("bench", "nmt", *options, "--batch", "auto", "--memory", bytes_, "--steps", "1", "--json").json()
        for _ in range(2):
            tuned = ebb("bench", "nmt", *options, "--batch", "auto", "--memory", bytes_, "--steps", "1", "--json", "--tune", "store").json()
            assert (tuned["batch"], tuned["weights_hash"]) == (plain["batch"], plain["weights_hash"]) and tuned["measured_peak_bytes"] <= bytes_


def command(out, *more):
    return ["train", "lm", *LM, "--train", "t", "--valid", "t", "--steps", "40", "--save-every", "5", "--log-every", "10", "--out", out, *more]


def config(folder):
    with open(folder + "/config", encoding="utf8") as file:
        return dict(line.rstrip("\n").split(" = ", 1) for line in file)


def test_a_run_keeps_its_batch():
    text("t", 2000)
    bytes_ = ebb("plan", *command("x", "--batch", "11")[1:], "--json").json()["least_bytes"]
    result = ebb(*command("auto", "--batch", "auto", "--memory", bytes_, "--json"))
    batch = result.json()["batch"]
    assert batch >= 11 and f"batch {batch} fits in " in result.err and config("auto")["batch"] == str(batch)
    ebb(*command("plain", "--batch", batch, "--quiet"))
    assert weights("auto") == weights("plain") and metrics("auto") == metrics("plain")
    # Going on with another budget, the run decides.
    ebb(*command("broken", "--batch", "auto", "--memory", bytes_, "--steps", "10", "--quiet"))
    more = ebb(*command("broken", "--batch", "auto", "--memory", "1G", "--json"))
    assert more.json()["batch"] == batch and f"batch {batch}, as the run in broken was started with" in more.err
    assert weights("auto") == weights("broken") and config("broken")["batch"] == str(batch)
    refused(4, *command("broken", "--batch", "auto", "--memory", "1000", "--steps", "50", "--quiet"), says="least")
    refused(2, *command("broken", "--batch", "1", "--quiet"), says=[f"batch = {batch}", "batch = 1"])
    again = ebb(*command("broken", "--batch", "auto", "--memory", "1G", "--fresh", "--steps", "2", "--json")).json()
    assert again["batch"] > batch
    assert ebb("eval", "lm", "auto", "t", "--json").json()["tokens"] > 0
    ebb("train", "lm", "--config", "auto/config", "--out", "copy", "--quiet")
    assert weights("copy") == weights("auto")


def test_killed_at_any_moment():
    text("t", 2000)
    bytes_ = ebb("plan", *command("x", "--batch", "5")[1:], "--json").json()["least_bytes"]
    ebb(*command("whole", "--batch", "auto", "--memory", bytes_, "--steps", "200", "--quiet"))
    for step in [1, 30, 100]:
        process = start(*command("broken", "--batch", "auto", "--memory", str(bytes_), "--steps", "200"))
        wait_for_step(process, "broken", step)
        process.kill()
        process.communicate()
    ebb(*command("broken", "--batch", "auto", "--memory", bytes_, "--steps", "200", "--quiet"))
    assert weights("whole") == weights("broken") and metrics("whole") == metrics("broken")


def test_no_more_than_the_text_fills():
    text("t", 20)  # 20 lines of 9 tokens: 179 to predict, 36 windows of 5
    result = ebb(*command("run", "--batch", "auto", "--steps", "3", "--json"))
    assert result.json()["batch"] == 32 and "the text fills no larger one" in result.err
    write("s", "a b c\nd e\n" * 6)
    write("u", "x y\nz\n" * 6)
    result = ebb("train", "nmt", "--hidden", "8", "--train", "s", "u", "--batch", "auto", "--bucket", "optimal", "--steps", "3", "--out", "pairs", "--json")
    assert (result.json()["batch"], result.json()["batch_tokens"]) == (0, 24) and "batch 24 tokens fits in " in result.err
    assert "the text fills no larger one" in result.err and (config("pairs")["batch"], config("pairs")["batch-tokens"]) == ("auto", "24")
    assert result.json()["buckets"]["shapes"] == [[4, 3, 6], [3, 2, 6]]
    # Lines left out are reported once.
    write("s", "a b c\nd e\n\n" * 6)
    write("u", "x y\nz\nx\n" * 6)
    result = ebb("train", "nmt", "--hidden", "8", "--train", "s", "u", "--batch", "auto", "--bucket", "optimal", "--steps", "3", "--out", "fewer")
    assert config("fewer")["batch-tokens"] == "24" and result.err.count("are left out") == 1
    assert ebb("plan", "nmt", "--hidden", "8", "--train", "s", "u", "--batch", "auto", "--bucket", "optimal", "--json", "--quiet").json()["batch_tokens"] == 24
    refused(3, *command("bad", "--batch", "auto", "--train", write("empty", ""), "--quiet"), says="empty")


def test_not_even_one():
    for kind, options in [("lm", LM + ["--vocab", "30"]), ("nmt", NMT)]:
        bytes_ = least(kind, *options, "--batch", 1)
        for command_ in ["plan", "bench"]:
            refused(4, command_, kind, *options, "--batch", "auto", "--memory", bytes_ - 1, says=["a batch of 1", "least", str(bytes_), "largest: "])
            assert ebb(command_, kind, *options, "--batch", "auto", "--memory", bytes_, "--json").json()["batch"] >= 1
    text("t")
    refused(4, *command("none", "--batch", "auto", "--memory", "1000", "--quiet"), says=["a batch of 1", "least"])
    assert not os.path.exists("none/config")


def test_where_there_is_no_auto():
    text("t")
    ebb("train", "lm", *TINY, "--train", "t", "--steps", "2", "--out", "run", "--quiet")
    refused(2, "eval", "lm", "run", "t", "--batch", "auto", says=["--batch auto", "--batch N"])
    refused(2, "tune", "lm", *LM, "--batch", "auto", "--tune", "store", says=["--batch auto", "--batch N"])
    for bad in ["0", "automatic", "-1", ""]:
        refused(2, "plan", "lm", "--batch", bad, says="--batch")
    refused(2, "plan", "lm", "--batch", "2000000", says=["--batch", "or auto"])
    write("c", "batch = auto\nmemory = 2M\n")
    assert ebb("plan", "lm", *LM, "--vocab", "30", "--config", "c", "--json").json()["batch"] > 1


# ---- sizes that fit nothing ----

def test_budget_below_the_least():
    plan = ebb("plan", "nmt", *NMT, "--batch", "4", "--json").json()
    bytes_ = plan["least_bytes"]
    for command_ in ["plan", "bench"]:
        failed = ebb(command_, "nmt", *NMT, "--batch", "4", "--memory", bytes_ - 1, "--json", expect=4)
        line = failed.err.splitlines()[-1]
        assert f"--memory {bytes_}" in line and f"{bytes_ - 1} bytes is too small" in line
        culprits = line.split("largest: ")[1].split(", ")
        assert len(culprits) == 3 and all(culprit.rsplit(" ", 1)[1].isdigit() for culprit in culprits), line
        assert ebb(command_, "nmt", *NMT, "--batch", "4", "--memory", bytes_, "--json").code == 0
    shown = json.loads(ebb("plan", "nmt", *NMT, "--batch", "4", "--memory", bytes_ - 1, "--json", expect=4).out)
    assert shown["least_bytes"] == bytes_ and shown["budget_bytes"] == bytes_ - 1


def test_lengths():
    for side in ["--src-len", "--tgt-len"]:
        for bad in ["0", "-1", "", "1.5", "10000000"]:
            refused(2, "plan", "nmt", side + "=" + bad, says=side)
        for batch in ["64", "auto"]:
            for command_ in ["plan", "bench"]:
                line = refused(2, command_, "nmt", side, "100000", "--batch", batch, says=[side, "100000"])
                assert int(line.split("take ")[1].split(" bytes")[0]) >= 100000 * 512 * 4 * (64 if batch == "64" else 1)
    assert ebb("bench", "nmt", "--hidden", "8", "--vocab", "9", "--src-len", "1", "--tgt-len", "1", "--batch", "1", "--steps", "1", "--json").code == 0


def test_hidden_of_a_translation_model():
    for odd in ["7", "513"]:
        for command_ in ["plan", "bench"]:
            refused(2, command_, "nmt", "--hidden", odd, says=[f"--hidden {odd} is odd"])
            refused(2, command_, "nmt", "--hidden", odd, "--batch", "auto", says=[f"--hidden {odd} is odd"])
    write("s", "a b\n")
    refused(2, "train", "nmt", "--hidden", "7", "--train", "s", "s", "--quiet", says="--hidden 7 is odd")
    refused(2, "plan", "nmt", "--hidden", "1", says="--hidden")


main(globals())
