"""bench --profile: tables that sum to the step, and nothing of the run changed by looking at it."""
from ebbtest import SANITIZED, ebb, main, refused

SMALL = ["--layers", "2", "--hidden", "16", "--vocab", "200", "--batch", "4", "--bptt", "6", "--dropout", "0.2", "--steps", "2"]
KEYS = "peak_flops step_seconds observed_seconds least_seconds flops memory_bytes phases layers top".split()
ROW = "name calls seconds least_seconds flops bytes".split()
PHASES = ["embedding", "input GEMM", "recurrent GEMM", "pointwise", "output: projection", "output: loss", "output: gradients",
          "recurrent-gradient GEMM", "input-gradient GEMM", "weight-gradient GEMM", "bias gradient", "packing, copies", "optimiser",
          "waiting, other"]
PASSES = "simplify batch_time chunk layout".split()


def profile(*args):
    result = ebb("bench", "lm", *SMALL, *args, "--profile", "--json").json()
    assert result["planned_peak_bytes"] == result["measured_peak_bytes"]
    assert result["allocations_after_first_step"] == 0
    assert SANITIZED or result["vm_hwm_bytes"] <= result["planned_peak_bytes"] + (32 << 20)
    found = result["profile"]
    assert sorted(found) == sorted(KEYS), set(found) ^ set(KEYS)
    assert [row["name"] for row in found["phases"]] == PHASES
    for row in found["phases"] + found["layers"]:
        assert sorted(row) == sorted(ROW)
    for row in found["top"]:
        assert sorted(row) == sorted(ROW + ["form", "phase", "layer", "shape"])
        assert row["phase"] in PHASES and row["layer"] in [layer["name"] for layer in found["layers"]]
    return result, found


def total(rows, key):
    return sum(row[key] for row in rows)


def test_tables_sum_to_the_step():
    for options in [["--threads", "1"], ["--threads", "2"], ["--cell", "gru"], ["--cell", "rnn", "--tie"], ["--optimizer", "adam", "--clip", "none"],
                    *[["--disable", name, "--threads", "2"] for name in PASSES], ["--disable", ",".join(PASSES)],
                    ["--hidden", "1", "--vocab", "1", "--batch", "1", "--bptt", "1", "--layers", "1"]]:
        _, found = profile(*options)
        step = found["observed_seconds"]
        assert step > 0 and found["step_seconds"] > 0 and found["peak_flops"] > 0 and found["memory_bytes"] > 0
        assert abs(total(found["phases"], "seconds") - step) <= 1e-6 * step, options
        assert total(found["phases"], "calls") == total(found["layers"], "calls") > 0
        assert abs(total(found["phases"], "flops") - found["flops"]) <= 1e-6 * found["flops"]
        assert total(found["layers"], "seconds") <= step * (1 + 1e-6)
        assert total(found["top"], "seconds") <= step * (1 + 1e-6)
        assert 0 < found["least_seconds"] <= step * (1 + 1e-6)
        for rows in (found["phases"], found["layers"]):
            assert abs(total(rows, "least_seconds") - found["least_seconds"]) <= 1e-6 * step, options
        seconds = [row["seconds"] for row in found["top"]]
        assert seconds == sorted(seconds, reverse=True) and 0 < len(seconds) <= 10


def test_looking_changes_nothing():
    for options in [["--threads", "1"], ["--threads", "2", "--cell", "gru"]]:
        plain = ebb("bench", "lm", *SMALL, *options, "--json").json()
        seen, _ = profile(*options)
        assert "profile" not in plain
        for key in ["weights_hash", "loss", "plan_hash", "planned_peak_bytes"]:
            assert plain[key] == seen[key], key


def test_the_budget_is_held():
    least = ebb("plan", "lm", *SMALL, "--threads", "2", "--json").json()["least_bytes"]
    result, found = profile("--threads", "2", "--memory", least)
    assert result["measured_peak_bytes"] <= least and found["memory_bytes"] < 1 << 20


def test_for_people():
    for options in [["--threads", "2"], ["--threads", "1", "--layers", "12"]]:
        lines = ebb("bench", "lm", *SMALL, *options, "--profile").out.splitlines()
        assert len(lines) <= 52 and max(map(len, lines)) <= 80, "\n".join(lines)
        for text in ["fma peak", "recurrent GEMM", "optimiser", "waiting, other", "rnn.l1", "slowest instructions"]:
            assert any(text in line for line in lines), text
    assert any("(others)" in line for line in lines)


def test_only_bench_has_it():
    refused(2, "plan", "lm", *SMALL, "--profile", says="--profile")


main(globals())
