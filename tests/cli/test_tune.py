#!/usr/bin/env python3
"""Measured times of products: `ebb tune`, the first run of a model, the store that keeps them, and
`ebb plan --explain`. Nothing here depends on how long anything takes."""
import ctypes
import ctypes.util
import json
import os
import re

from ebbtest import SANITIZED, TINY, ebb, main, refused, text, write

MODEL = ["--hidden", "40", "--layers", "1", "--batch", "6", "--bptt", "4", "--vocab", "300", "--threads", "2"]
ROOM = ["--tune", "store"]
CLOSE = 1.15  # a form this far behind the fastest is not taken, whatever the kernel prefers


def store():
    files = os.listdir("store")
    assert len(files) == 1 and files[0].startswith("cpu-"), files
    return os.path.join("store", files[0])


def tuned(*options):
    return ebb("tune", "lm", *MODEL, *ROOM, "--seconds", "600", "--json", *options).json()


def settled():
    """Measures as often as it takes: what comes from a busy machine is measured up to three times."""
    report = tuned()
    again = [tuned()["measured"] for _ in range(3)]
    assert again[-1] == 0, again
    return report


def test_tune_fills_the_store():
    report = tuned()
    assert report["threads"] == 2 and os.path.samefile(report["store"], store())
    assert report["measured"] == len(report["entries"]) > 3 and report["left"] == 0
    for entry in report["entries"]:
        assert entry["members"] == 2 and entry["count"] >= 1 and entry["m"] >= 1 and entry["n"] >= 1
        seconds = {form["form"]: form["seconds"] for form in entry["forms"]}
        assert seconds and min(seconds.values()) > 0
        assert seconds[entry["chosen"]] <= CLOSE * min(seconds.values())
    products = [entry for entry in report["entries"] if entry["op"] == "matmul"]
    assert products and all("trans_a" in entry and "trans_b" in entry and entry["k"] > 0 for entry in products)
    with open(store()) as file:
        assert len(json.load(file)["entries"]) == len(report["entries"])
    # All is known by now; with --fresh it is measured again.
    settled()
    assert tuned("--fresh")["measured"] == report["measured"]
    lines = ebb("tune", "lm", *MODEL, *ROOM).out
    assert "GFLOP/s" in lines and "stored in store/" in lines


def test_no_time_is_no_reason_to_try_again():
    first = ebb("tune", "lm", *MODEL, *ROOM, "--seconds", "0", "--json").json()
    assert first["measured"] == 0 and first["left"] == len(first["entries"])
    # A run takes that as it is; tune goes on.
    run = ebb("bench", "lm", *MODEL, *ROOM, "--steps", "1")
    assert "tuning" not in run.err
    assert tuned()["measured"] == first["left"]


def test_the_first_run_measures_once():
    first = ebb("bench", "lm", *MODEL, *ROOM, "--steps", "2", "--json")
    assert len([line for line in first.err.splitlines() if line.startswith("tuning ")]) == 1, first.err
    plan = ebb("plan", "lm", *MODEL, *ROOM, "--json").json()
    assert plan["plan_hash"] == first.json()["plan_hash"]
    settled()
    known = open(store()).read()
    first = ebb("bench", "lm", *MODEL, *ROOM, "--steps", "2", "--json")
    again = ebb("bench", "lm", *MODEL, *ROOM, "--steps", "2", "--json")
    assert again.err == "" and open(store()).read() == known
    plain = ebb("bench", "lm", *MODEL, "--tune", "off", "--steps", "2", "--json")
    assert plain.err == ""
    a, b, c = first.json(), again.json(), plain.json()
    assert a["plan_hash"] == b["plan_hash"]
    assert a["weights_hash"] == b["weights_hash"] == c["weights_hash"]
    for result in (a, b, c):
        assert result["planned_peak_bytes"] == result["measured_peak_bytes"]
        assert result["allocations_after_first_step"] == 0
    # The plan is made of what is stored, and adds nothing.
    plan = ebb("plan", "lm", *MODEL, *ROOM, "--json").json()
    assert plan["plan_hash"] == a["plan_hash"] and open(store()).read() == known
    # Another number of threads is another matter.
    assert "tuning" in ebb("bench", "lm", *MODEL[:-1], "1", *ROOM, "--steps", "1").err


def test_training_tunes_and_using_does_not():
    text("train.txt")
    run = ebb("train", "lm", "--train", "train.txt", *TINY, "--steps", "2", *ROOM)
    assert "tuning" in run.err
    known = open(store()).read()
    ebb("generate", "ebb-lm", "--length", "3", *ROOM)
    ebb("eval", "lm", "ebb-lm", "train.txt", *ROOM)
    assert open(store()).read() == known
    ebb("plan", "lm", *MODEL, "--tune", "elsewhere")
    assert not os.path.exists("elsewhere")


def test_where_the_store_is():
    options = ["bench", "lm", *TINY, "--vocab", "50", "--steps", "1"]
    home = {"HOME": os.path.abspath("home"), "XDG_CACHE_HOME": "", "EBB_TUNE": ""}
    ebb(*options, env=home)
    assert len(os.listdir("home/.cache/ebb/tune")) == 1
    ebb(*options, env={**home, "XDG_CACHE_HOME": os.path.abspath("cache")})
    assert len(os.listdir("cache/ebb/tune")) == 1
    ebb(*options, env={**home, "EBB_TUNE": os.path.abspath("own")})
    assert len(os.listdir("own")) == 1
    nowhere = ebb(*options, env={**home, "HOME": ""})
    assert "built-in" in nowhere.err and len(nowhere.err.splitlines()) == 1, nowhere.err
    ebb(*options, env={**home, "HOME": os.path.abspath("other"), "EBB_TUNE": "off"})
    assert not os.path.exists("other")


def test_a_store_that_cannot_be_written():
    write("file", "not a folder")
    run = ebb("bench", "lm", *MODEL, "--tune", "file/store", "--steps", "1", "--json")
    assert len(run.err.splitlines()) == 1 and run.err.startswith("warning: ") and "built-in" in run.err, run.err
    plain = ebb("bench", "lm", *MODEL, "--tune", "off", "--steps", "1", "--json")
    assert run.json()["plan_hash"] == plain.json()["plan_hash"]
    refused(7, "tune", "lm", *MODEL, "--tune", "file/store", "--seconds", "0", says="cannot create folder file")
    refused(2, "tune", "lm", *MODEL, "--tune", "off", says="--tune DIR")
    refused(2, "tune", "lm", "--vocab", "all", *ROOM, says="--vocab N")


def test_a_damaged_store_is_measured_anew():
    tuned()
    path = store()
    good = open(path, "rb").read()
    for bad in (b"", b"{", good[:-30], good.replace(b'"members": 2', b'"members": 3'), b"\xff" * 1000, b"[]",
                good.replace(b'"format": 2', b'"format": 1')):
        write(path, bad)
        plan = ebb("plan", "lm", *MODEL, *ROOM, "--json")
        assert len(plan.err.splitlines()) == 1 and plan.err.startswith("warning: ") and path in plan.err, plan.err
        assert open(path, "rb").read() == bad
    run = ebb("bench", "lm", *MODEL, *ROOM, "--steps", "1")
    assert [line.split()[0] for line in run.err.splitlines()] == ["warning:", "tuning"], run.err
    assert ebb("plan", "lm", *MODEL, *ROOM).err == ""


def rewrite_store(path, change):
    """Replaces the lines of all products by what change makes of their list."""
    lines = open(path, "rb").read().split(b"\n")
    body = lines[0] + b"\n" + b",\n".join(change([line.rstrip(b",") for line in lines[1:-2]])) + b"\n"
    digest = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH3_64bits
    digest.restype, digest.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
    write(path, body + b'], "hash": "%016x"}\n' % digest(body, len(body)))


def grow_store(path, n):
    """Puts n products of other models before those that are stored."""
    def change(own):
        product = max(own, key=len)
        return [re.sub(rb'"m": \d+', b'"m": %d' % (100000 + i), product) for i in range(n)] + own
    rewrite_store(path, change)


def test_times_of_a_busy_machine():
    tuned()
    run = ["bench", "lm", *MODEL, *ROOM, "--steps", "1"]
    for times, again in ((1, True), (2, True), (3, False), (0, False)):
        rewrite_store(store(), lambda own: [re.sub(rb'"loaded": \d', b'"loaded": %d' % times, line) for line in own])
        known = open(store(), "rb").read()
        assert ebb("plan", "lm", *MODEL, *ROOM).err == "" and open(store(), "rb").read() == known
        err = ebb(*run).err
        assert ("again, it was busy before" in err) == again and len(err.splitlines()) == again, err
        assert (open(store(), "rb").read() != known) == again


def test_memory_does_not_grow_with_the_store():
    settled()
    run = ["bench", "lm", *MODEL, *ROOM, "--steps", "1", "--json"]
    small, good = ebb(*run).json(), open(store(), "rb").read()
    for n in (10000, 30000):
        write(store(), good)
        grow_store(store(), n)
        assert len(json.load(open(store()))["entries"]) == n + good.count(b"kernel\"")
        plan = ebb("plan", "lm", *MODEL, *ROOM, "--json")
        assert plan.err == "" and plan.json()["plan_hash"] == small["plan_hash"]
        large = ebb(*run)
        # What it uses was found among the others, and is at the front of a file that was cut.
        assert large.err == "" and large.json()["plan_hash"] == small["plan_hash"]
        assert open(store(), "rb").read().startswith(good[:good.index(b"\n], ")])
        assert os.path.getsize(store()) <= 4 << 20
        assert ebb(*run).json()["plan_hash"] == small["plan_hash"]
        if not SANITIZED:
            assert large.json()["vm_hwm_bytes"] <= small["vm_hwm_bytes"] + (1 << 20)


def test_bytes_do_not_depend_on_what_was_measured():
    """Plans are listed by bytes alone; measured forms are taken where the budget has room for them."""
    settled()
    known, plain = (ebb("plan", "lm", *MODEL, *tune, "--curve", "--json").json() for tune in (ROOM, ["--tune", "off"]))
    for key in ("least_bytes", "keep_all_bytes"):
        assert known[key] == plain[key], (key, known[key], plain[key])
    # With another pace a plan may be beaten that was not, but none has other bytes.
    bytes_of = [{point["peak_bytes"] for point in report["curve"]} for report in (known, plain)]
    assert bytes_of[0] <= bytes_of[1] or bytes_of[1] <= bytes_of[0], bytes_of
    least = str(plain["least_bytes"])
    run = ebb("bench", "lm", *MODEL, *ROOM, "--steps", "1", "--memory", least, "--json").json()
    assert run["planned_peak_bytes"] == run["measured_peak_bytes"] <= int(least)
    refused(4, "bench", "lm", *MODEL, *ROOM, "--steps", "1", "--memory", str(int(least) - 1), says=[least])


def test_explain():
    built_in = ebb("plan", "lm", *MODEL, "--explain", "--json").json()
    assert built_in["products"] and not any(p["measured"] for p in built_in["products"])
    assert "products" not in ebb("plan", "lm", *MODEL, "--json").json()
    tuned()
    plan = ebb("plan", "lm", *MODEL, *ROOM, "--explain", "--json").json()
    products = plan["products"]
    assert all(p["measured"] for p in products)
    steps = [p["seconds_per_step"] for p in products]
    assert steps == sorted(steps, reverse=True) and sum(p["share"] for p in products) <= 1.000001
    for p in products:
        seconds = {form["form"]: form["seconds"] for form in p["forms"]}
        assert p["form"] in seconds and p["seconds"] <= CLOSE * min(s for s in seconds.values() if s is not None)
        assert p["count"] >= 1 and p["where"]
    shown = ebb("plan", "lm", *MODEL, *ROOM, "--explain").out
    assert "products of a step" in shown and shown.count(" * ") == 1 + len(products)


def test_explain_names_what_is_done_again():
    model = ["--vocab", "200", "--hidden", "64", "--batch", "64", "--bptt", "64", "--tune", "off"]
    least = ebb("plan", "lm", *model, "--json").json()["least_bytes"]
    plan = ebb("plan", "lm", *model, "--memory", least, "--explain", "--json").json()
    phases = {p["where"].split()[-1] for p in plan["products"]}
    assert "recompute" in phases and phases <= {"forward", "backward", "update", "recompute"}, phases
    assert "recompute)" in ebb("plan", "lm", *model, "--memory", least, "--explain").out


def test_a_budget_that_is_refused_is_refused_at_once():
    least = ebb("plan", "lm", *MODEL, "--json").json()["least_bytes"]
    run = ebb("bench", "lm", *MODEL, *ROOM, "--steps", "1", "--memory", least - 1, expect=4)
    assert len(run.err.splitlines()) == 1 and f"--memory {least}" in run.err, run.err
    assert not os.path.exists("store") or os.listdir("store") == []


def test_a_small_budget_bounds_tuning():
    least = ebb("plan", "lm", *MODEL, "--json").json()["least_bytes"]
    run = ebb("bench", "lm", *MODEL, *ROOM, "--steps", "1", "--memory", 2 * least, "--json").json()
    assert run["planned_peak_bytes"] == run["measured_peak_bytes"] <= 2 * least
    if not SANITIZED:
        assert run["vm_hwm_bytes"] <= 2 * least + (32 << 20)


if __name__ == "__main__":
    main(globals())
