"""Prediction is reality: bytes to the byte, budgets held, the same bits however it is run."""
from ebbtest import SANITIZED, ebb, main, refused

SMALL = ["--layers", "2", "--hidden", "24", "--vocab", "300", "--batch", "6", "--bptt", "8", "--dropout", "0.2", "--steps", "2"]
PLAN = """schema peak_bytes keep_all_bytes least_bytes bytes_by_kind bytes_by_layer activation_bytes
    keep_all_activation_bytes nodes plan_seconds seconds_per_step budget_bytes plan_hash""".split()
BENCH = """schema words_per_second seconds_per_step planned_peak_bytes measured_peak_bytes vm_hwm_bytes
    loss weights_hash allocations_after_first_step threads plan_hash""".split()
KINDS = "weights gradients optimizer stash workspace data program unused".split()


def bench(*args):
    result = ebb("bench", "lm", *SMALL, *args, "--json").json()
    assert sorted(result) == sorted(BENCH), set(result) ^ set(BENCH)
    assert result["planned_peak_bytes"] == result["measured_peak_bytes"]
    assert result["allocations_after_first_step"] == 0
    assert SANITIZED or result["vm_hwm_bytes"] <= result["planned_peak_bytes"] + (32 << 20)
    assert len(result["weights_hash"]) == len(result["plan_hash"]) == 16
    return result


def plan(*args):
    return ebb("plan", "lm", *SMALL, *args, "--json").json()


def test_plan_fields():
    shown = plan()
    assert sorted(shown) == sorted(PLAN), set(shown) ^ set(PLAN)
    kinds = shown["bytes_by_kind"]
    assert sorted(kinds) == sorted(KINDS) and sum(kinds.values()) == shown["peak_bytes"]
    assert shown["activation_bytes"] == shown["peak_bytes"] - kinds["weights"] - kinds["gradients"] - kinds["optimizer"]
    assert shown["least_bytes"] <= shown["peak_bytes"] <= shown["budget_bytes"] and shown["nodes"] > 0
    assert sum(shown["bytes_by_layer"].values()) <= shown["peak_bytes"]
    assert shown["seconds_per_step"] > 0 and shown["plan_seconds"] > 0
    again = plan()
    assert again["plan_hash"] == shown["plan_hash"]
    without = plan("--disable", "chunk")
    assert without["keep_all_bytes"] == shown["keep_all_bytes"]


def test_plan_on_one_screen():
    shown = ebb("plan", "lm", *SMALL).out.splitlines()
    assert len(shown) <= 24 and max(map(len, shown)) <= 80
    least = plan()["least_bytes"]
    assert any(str(least) in line for line in shown)
    small = ebb("plan", "lm", *SMALL, "--memory", least - 1, expect=4)
    assert small.err.startswith("ebb: ") and small.err.count("\n") == 1 and str(least) in small.err


def test_budget_at_the_least_byte():
    for options in [["--threads", "1"], ["--optimizer", "adam", "--cell", "gru", "--threads", "2"], ["--tie", "--cell", "rnn", "--threads", "1"]]:
        least = plan(*options)["least_bytes"]
        at_least = bench(*options, "--memory", least)
        assert at_least["measured_peak_bytes"] <= least
        refused(4, "bench", "lm", *SMALL, *options, "--memory", least - 1, says=[str(least), str(least - 1)])
        assert at_least["weights_hash"] == bench(*options)["weights_hash"]


def test_bits_do_not_depend_on_threads_or_passes():
    first = bench("--threads", "1")
    for options in [["--threads", "2"], ["--threads", "5"], ["--disable", "chunk"], ["--disable", "simplify"], ["--disable", "layout"],
                    ["--disable", "chunk,simplify,layout", "--threads", "2"]]:
        other = bench(*options)
        assert (other["weights_hash"], other["loss"]) == (first["weights_hash"], first["loss"]), options
    assert bench("--threads", "5")["threads"] == 5
    assert bench("--seed", "2", "--threads", "1")["weights_hash"] != first["weights_hash"]


def test_plain_report():
    shown = ebb("bench", "lm", *SMALL, "--threads", "1").out
    assert "words per second" in shown and "weights hash" in shown


main(globals())
