"""Values that wait for backward on a disk: the same bits, planned bytes used, nothing changed where it is not asked for, and a full disk."""
import os
import resource
import subprocess

from ebbtest import EBB, digest, ebb, main, refused, text

SHIM = os.path.join(os.path.dirname(EBB), "tests", "cli", "shim", "disk.so")
LM = ["lm", "--layers", "1", "--hidden", "64", "--vocab", "200", "--batch", "16", "--bptt", "40", "--threads", "1"]
NMT = ["nmt", "--hidden", "48", "--src-vocab", "120", "--tgt-vocab", "150", "--batch", "16", "--src-len", "12", "--tgt-len", "14", "--threads", "1"]
ONLY = ["--disable", "chunk", "--disable", "recompute", "--disable", "encode"]


def plan(*args):
    return ebb("plan", *args, "--json").json()


def bench(*args):
    shown = ebb("bench", *args, "--steps", "3", "--json").json()
    assert shown["planned_peak_bytes"] == shown["measured_peak_bytes"]
    assert shown["allocations_after_first_step"] == 0
    return shown


def test_only_offload_allowed():
    """Where nothing else may save, the least that works is less with a disk, and has the bits of all the memory there is."""
    for model in (LM, NMT):
        all_kept = bench(*model, *ONLY)
        least = plan(*model, *ONLY)["least_bytes"]
        away = plan(*model, *ONLY, "--disk", ".")["least_bytes"]
        assert away < 0.85 * least, (away, least)
        refused(4, "bench", *model, *ONLY, "--memory", away, says="least")
        shown = bench(*model, *ONLY, "--disk", ".", "--memory", away)
        assert shown["weights_hash"] == all_kept["weights_hash"] and shown["loss"] == all_kept["loss"]
        assert shown["planned_peak_bytes"] == away
        assert shown["offloaded_bytes"] == shown["offloaded_bytes_used"] > 0
        assert shown["moved_bytes_per_step"] >= 2 * 0.9 * shown["offloaded_bytes"]
        refused(4, "bench", *model, *ONLY, "--disk", ".", "--memory", away - 1, says="least")
        assert os.listdir(".") == []


def test_what_is_told():
    away = plan(*LM, *ONLY, "--disk", ".")["least_bytes"]
    shown = plan(*LM, *ONLY, "--disk", ".", "--memory", away)
    mine = [d for d in shown["decisions"] if d["form"] == "offloaded"]
    assert mine and sum(d["bytes"] for d in mine) <= shown["offloaded_bytes"] and all(d["seconds"] > 0 for d in mine)
    assert "offloaded" in ebb("plan", *LM, *ONLY, "--disk", ".", "--memory", away, "--explain").out
    assert "of the stash offloaded" in ebb("plan", *LM, *ONLY, "--disk", ".", "--curve").out


def test_nothing_changes_unasked():
    """Without a disk, and where the pass is disabled, plans are the same to the byte; with all knobs, none gets slower."""
    for model in (LM, NMT):
        whole = plan(*model)
        for share in (1.0, 0.6, 0.4, 0.0):
            memory = max(int(share * whole["keep_all_bytes"]), whole["least_bytes"])
            before = plan(*model, "--memory", memory)
            off = plan(*model, "--memory", memory, "--disk", ".", "--disable", "offload")
            assert before["plan_hash"] == off["plan_hash"] and before["least_bytes"] == off["least_bytes"]
            assert "offloaded_bytes" not in before and "offloaded_bytes" not in off
            on = plan(*model, "--memory", memory, "--disk", ".")
            assert on["seconds_per_step"] <= before["seconds_per_step"] and on["least_bytes"] <= before["least_bytes"]


def test_a_full_disk():
    """One line and exit 7, before anything is trained; what was saved stays and goes on."""
    text("t")
    run = ["train", "lm", "--train", "t", "--layers", "1", "--hidden", "64", "--batch", "16", "--bptt", "40", "--threads", "1", "--quiet", *ONLY, "--out", "run"]
    ebb(*run, "--steps", "2")
    before = sorted((name, os.stat(os.path.join("run", name)).st_mtime_ns) for name in os.listdir("run") if name.endswith(".safetensors"))
    shape = ["--disk", ".", "--train", "t", "--layers", "1", "--hidden", "64", "--batch", "16", "--bptt", "40", "--threads", "1", *ONLY]
    away = plan("lm", *shape)["least_bytes"]
    done = subprocess.run([EBB, *run, "--steps", "4", "--disk", ".", "--memory", str(away)], capture_output=True, text=True, timeout=250,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10)))
    lines = done.stderr.splitlines()
    assert done.returncode == 7 and len(lines) == 1 and "--disk" in lines[0], done
    assert before == sorted((name, os.stat(os.path.join("run", name)).st_mtime_ns) for name in os.listdir("run") if name.endswith(".safetensors"))
    ebb(*run, "--steps", "4", "--disk", ".", "--memory", away)
    refused(7, "bench", *LM, *ONLY, "--disk", "nowhere", "--memory", plan(*LM, *ONLY, "--disk", "nowhere")["least_bytes"], says="nowhere")


def on_bad_disk(kind, *args, expect=0):
    return ebb(*args, expect=expect, env={"LD_PRELOAD": SHIM, "EBB_DISK": kind})


def test_a_slow_disk():
    """Each call takes milliseconds and does a part of what it is asked for: the same bits and bytes."""
    if not os.path.exists(SHIM):
        return
    away = plan(*LM, *ONLY, "--disk", ".")["least_bytes"]
    run = ["bench", *LM, *ONLY, "--disk", ".", "--memory", away, "--steps", "2", "--json"]
    fast, slow = ebb(*run).json(), on_bad_disk("slow", *run).json()
    same = ["weights_hash", "loss", "planned_peak_bytes", "measured_peak_bytes", "offloaded_bytes", "offloaded_bytes_used", "moved_bytes_per_step"]
    assert [fast[name] for name in same] == [slow[name] for name in same]
    assert slow["seconds_per_step"] > fast["seconds_per_step"]


def test_a_disk_that_fills_up():
    """Where room cannot be reserved, a disk is full in the middle of a step: one line, exit 7, and the last checkpoint goes on to the same end."""
    if not os.path.exists(SHIM):
        return
    text("t")
    model = ["lm", "--train", "t", "--layers", "1", "--hidden", "64", "--batch", "16", "--bptt", "40", "--threads", "1", *ONLY, "--disk", "."]
    shape = plan(*model)
    shown = plan(*model, "--memory", shape["least_bytes"])
    run = ["train", *model, "--memory", shape["least_bytes"], "--steps", "6", "--save-every", "1", "--quiet"]
    ebb(*run, "--out", "whole")
    room = 5 * shown["offloaded_bytes"] // 2
    done = on_bad_disk(f"full:{room}", *run, "--out", "run", expect=7)
    lines = done.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("ebb: ") and "No space left" in lines[0], done.err
    saved = [name for name in os.listdir("run") if name.startswith("ckpt-") and name.endswith(".json")]
    assert saved and not os.path.exists("run/ckpt-6.json"), saved
    ebb(*run, "--out", "run")
    assert digest("run/last.safetensors") == digest("whole/last.safetensors")


if __name__ == "__main__":
    main(globals())
