"""Prediction is reality: bytes to the byte, budgets held, the same bits however it is run."""
from ebbtest import SANITIZED, ebb, main, refused

SMALL = {
    "lm": ["--layers", "2", "--hidden", "24", "--vocab", "300", "--batch", "6", "--bptt", "8", "--dropout", "0.2", "--steps", "2"],
    "nmt": ["--hidden", "20", "--src-vocab", "210", "--tgt-vocab", "300", "--batch", "6", "--src-len", "5", "--tgt-len", "7", "--feed",
            "--layer-norm", "--dropout", "0.2", "--smoothing", "0.1", "--steps", "2"],
}
WORDS = {"lm": 6 * 8, "nmt": 6 * 7}
PLAN = """schema peak_bytes keep_all_bytes least_bytes bytes_by_kind bytes_by_layer activation_bytes
    keep_all_activation_bytes nodes plan_seconds seconds_per_step budget_bytes plan_hash
    recomputed_nodes seconds_per_step_keep_all decisions batch batch_tokens words_per_second
    forms stash sparse_reserved_bytes""".split()
BENCH = """schema batch words_per_second seconds_per_step cpu_seconds joules planned_peak_bytes measured_peak_bytes vm_hwm_bytes
    loss weights_hash allocations_after_first_step threads plan_hash forms stash sparse_reserved_bytes
    sparse_used_bytes fallback_steps""".split()
KINDS = "weights gradients optimizer stash workspace data program unused".split()


def bench(kind, *args):
    result = ebb("bench", kind, *SMALL[kind], *args, "--json").json()
    assert sorted(result) == sorted(BENCH), set(result) ^ set(BENCH)
    assert result["planned_peak_bytes"] == result["measured_peak_bytes"]
    assert result["allocations_after_first_step"] == 0
    assert SANITIZED or result["vm_hwm_bytes"] <= result["planned_peak_bytes"] + (32 << 20)
    assert len(result["weights_hash"]) == len(result["plan_hash"]) == 16
    assert abs(result["words_per_second"] * result["seconds_per_step"] - WORDS[kind]) < 1e-6
    assert result["cpu_seconds"] > 0 and (result["joules"] is None or result["joules"] >= 0)
    return result


def plan(kind, *args):
    return ebb("plan", kind, *SMALL[kind], *args, "--json").json()


def check_plan_fields(kind):
    shown = plan(kind)
    assert sorted(shown) == sorted(PLAN), set(shown) ^ set(PLAN)
    kinds = shown["bytes_by_kind"]
    assert sorted(kinds) == sorted(KINDS) and sum(kinds.values()) == shown["peak_bytes"]
    assert sum(shown["forms"].values()) == kinds["stash"] and abs(shown["words_per_second"] * shown["seconds_per_step"] - WORDS[kind]) < 1e-6
    assert shown["activation_bytes"] == shown["peak_bytes"] - kinds["weights"] - kinds["gradients"] - kinds["optimizer"]
    assert shown["least_bytes"] <= shown["peak_bytes"] <= shown["budget_bytes"] and shown["nodes"] > 0
    assert sum(shown["bytes_by_layer"].values()) <= shown["peak_bytes"]
    assert shown["seconds_per_step"] > 0 and shown["plan_seconds"] > 0
    again = plan(kind)
    assert again["plan_hash"] == shown["plan_hash"]
    without = plan(kind, "--disable", "chunk")
    assert without["keep_all_bytes"] == shown["keep_all_bytes"]


def check_one_screen(kind):
    shown = ebb("plan", kind, *SMALL[kind]).out.splitlines()
    assert len(shown) <= 24 and max(map(len, shown)) <= 80
    least = plan(kind)["least_bytes"]
    assert any(str(least) in line for line in shown)
    small = ebb("plan", kind, *SMALL[kind], "--memory", least - 1, expect=4)
    assert small.err.startswith("ebb: ") and small.err.count("\n") == 1 and str(least) in small.err


def check_least_byte(kind, options):
    least = plan(kind, *options)["least_bytes"]
    at_least = bench(kind, *options, "--memory", least)
    assert at_least["measured_peak_bytes"] <= least
    refused(4, "bench", kind, *SMALL[kind], *options, "--memory", least - 1, says=[str(least), str(least - 1)])
    assert at_least["weights_hash"] == bench(kind, *options)["weights_hash"]


def check_same_bits(kind):
    first = bench(kind, "--threads", "1")
    for options in [["--threads", "2"], ["--threads", "5"], ["--disable", "chunk"], ["--disable", "simplify"], ["--disable", "layout"],
                    ["--disable", "chunk,simplify,layout", "--threads", "2"], ["--disable", "batch_time,fuse,recompute"]]:
        other = bench(kind, *options)
        assert (other["weights_hash"], other["loss"]) == (first["weights_hash"], first["loss"]), options
    assert bench(kind, "--threads", "5")["threads"] == 5
    assert bench(kind, "--seed", "2", "--threads", "1")["weights_hash"] != first["weights_hash"]


def test_plan_fields():
    check_plan_fields("lm")
    check_plan_fields("nmt")


def test_plan_on_one_screen():
    check_one_screen("lm")
    check_one_screen("nmt")


def test_budget_at_the_least_byte():
    for options in [["--threads", "1"], ["--optimizer", "adam", "--cell", "gru", "--threads", "2"], ["--tie", "--cell", "rnn", "--threads", "1"]]:
        check_least_byte("lm", options)
    for options in [["--threads", "2"], ["--optimizer", "sgd", "--cell", "gru", "--attention", "dot", "--no-feed", "--threads", "1"],
                    ["--tie", "--tie-src", "--src-vocab", "300", "--enc-layers", "2", "--dec-layers", "2", "--no-layer-norm", "--threads", "1"]]:
        check_least_byte("nmt", options)


def test_bits_do_not_depend_on_threads_or_passes():
    check_same_bits("lm")
    check_same_bits("nmt")


def test_every_option_of_the_attention_model_matters():
    """None may be silently ignored: each changes the weights."""
    changes = [[], ["--no-feed"], ["--no-layer-norm"], ["--attention", "dot"], ["--cell", "gru"], ["--enc-layers", "2"], ["--dec-layers", "2"],
               ["--embed", "12"], ["--dropout", "0"], ["--smoothing", "0"], ["--tie"], ["--tie-src", "--src-vocab", "300"], ["--src-len", "4"],
               ["--tgt-len", "6"], ["--optimizer", "sgd"], ["--lr", "0.01"], ["--clip", "0.01"], ["--vocab", "250", "--tgt-vocab", "vocab"]]
    seen = {}
    for options in changes:
        WORDS["nmt"] = 6 * (6 if options[:1] == ["--tgt-len"] else 7)
        result = bench("nmt", *options, "--threads", "1")
        assert result["weights_hash"] not in seen, (options, seen[result["weights_hash"]])
        seen[result["weights_hash"]] = options
    WORDS["nmt"] = 6 * 7


def test_lengths_of_sentences():
    nmt = SMALL["nmt"]
    for bad in ["0", "-1", "1.5", "many"]:
        refused(2, "plan", "nmt", *nmt, "--src-len", bad, says="--src-len")
        refused(2, "bench", "nmt", *nmt, "--tgt-len", bad, says="--tgt-len")
    for option in ["--src-len", "--tgt-len"]:
        line = refused(2, "plan", "nmt", *nmt, option, "100000", says=[option + " 100000", "bytes"])
        assert str((100000 + (7 if option == "--src-len" else 5)) * 6 * 20 * 4) in line, line
    refused(2, "plan", "nmt", "--hidden", "7", says=["--hidden 7", "odd"])
    refused(2, "plan", "nmt", *nmt, "--tie-src", says=["--tie-src", "210", "300"])
    refused(2, "plan", "nmt", *nmt, "--tie", "--embed", "12", says=["--tie", "12", "20"])
    refused(2, "plan", "nmt", *nmt, "--batch", "1000000", "--src-len", "2000", says="--batch 1000000")
    one = ["--src-len", "1", "--tgt-len", "1", "--batch", "1"]
    WORDS["nmt"] = 1
    assert bench("nmt", *one, "--threads", "1")["loss"] > 0
    WORDS["nmt"] = 6 * 7


def test_rounded_stash():
    """Other bits than without, the same whatever the plan; ratios stay against f32."""
    for kind in SMALL:
        keep_all = ebb("plan", kind, *SMALL[kind], "--json").json()["keep_all_bytes"]
        seen = {bench(kind)["weights_hash"]}
        for stash in "fp16", "fp10", "fp8":
            plan = ebb("plan", kind, *SMALL[kind], "--stash", stash, "--json").json()
            assert plan["keep_all_bytes"] == keep_all and plan["stash"] == stash
            ways = [["--memory", plan["least_bytes"]], ["--disable", "encode,batch_time"], ["--disable", "recompute", "--threads", "1"]]
            hashes = {bench(kind, "--stash", stash, *way)["weights_hash"] for way in ways}
            assert len(hashes) == 1 and not hashes & seen, (kind, stash)
            seen |= hashes


def test_absurd_sizes():
    """Refused at once, in one line: nothing is looked at for minutes."""
    refused(4, "bench", "lm", "--batch", "1000000", "--memory", "200M", "--steps", "1", says="the least that works is")
    refused(2, "bench", "lm", "--batch", "1024", "--shards", "1024", "--steps", "1", says=["440320 nodes", "fewer shards"])


def test_planning_that_takes_more_than_the_plan():
    """Beyond 50,000 nodes planning may take more than the run: that is refused, unless the budget allows it."""
    many = ["bench", "lm", "--hidden", "8", "--embed", "8", "--bptt", "1000", "--batch", "8", "--shards", "8", "--vocab", "50", "--steps", "1", "--threads", "1"]
    if not SANITIZED:
        refused(4, *many, says=["planning its", "nodes took", "--memory"])
        assert ebb(*many, "--memory", "150M", "--json").json()["vm_hwm_bytes"] < (150 << 20) + (32 << 20)


def test_plain_report():
    for kind, options in SMALL.items():
        shown = ebb("bench", kind, *options, "--threads", "1").out
        assert "words per second" in shown and "weights hash" in shown and "processor seconds" in shown


main(globals())
