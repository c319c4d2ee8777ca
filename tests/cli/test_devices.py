"""--device: what is listed, what is refused and how it is said; what goes wrong in a driver ends in one line, and what was saved stays."""
import os
import shutil
import subprocess

from ebbtest import EBB, SANITIZED, TINY, digest, ebb, main, pairs, refused, text, write

BUILD = os.path.dirname(EBB)
SHIM = os.path.join(BUILD, "tests", "cli", "shim", "libOpenCL.so.1")
OCLGRIND = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"
MODEL = [*TINY, "--vocab", "40", "--steps", "2"]


def devices():
    return ebb("devices", "--json").json()["devices"]


def usable():
    found = any(d["usable"] and d["device"] != "cpu" for d in devices())
    if not found:
        print("SKIPPED: no OpenCL device that can be used", flush=True)
    return found and not SANITIZED


def library():
    """Where the real library is: what the loader would take."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    return next((line.split()[-1] for line in listed.splitlines() if "libOpenCL.so.1 " in line), None)


def shimmed(what):
    return {"LD_LIBRARY_PATH": os.path.dirname(SHIM), "EBB_SHIM": what, "EBB_SHIM_LIBRARY": library()}


def failing(what, code, *args, says):
    result = ebb(*args, "--device", "opencl", expect=code, env=shimmed(what))
    lines = [line for line in result.err.splitlines() if line.startswith("ebb: ")]
    assert len(lines) == 1 and all(part in lines[0] for part in says), (what, result.err)


def test_listed():
    found = devices()
    assert found[0]["device"] == "cpu" and found[0]["usable"], found
    for d in found:
        assert d["usable"] == (d["why_not"] == ""), d
    assert "cpu" in ebb("devices").out


def test_refused():
    refused(2, "bench", "lm", *MODEL, "--device", "tpu", says=["--device tpu", "auto"])
    for numbers in ("x", "", "0", "0.", "0.0.", "0.0x", " 0.0", "-1.0", "+0.0", "4294967296.0", "0.4294967296"):
        refused(2, "bench", "lm", *MODEL, "--device", "opencl:" + numbers, says="opencl:PLATFORM.DEVICE")
    if usable():
        refused(2, "bench", "lm", *MODEL, "--device", "opencl:99.0", says="ebb devices")


def test_no_driver():
    if library() is not None:
        result = ebb("bench", "lm", *MODEL, "--device", "opencl", expect=2, env={"OCL_ICD_VENDORS": "/nowhere"})
        assert "no driver" in result.err and "--device cpu" in result.err, result.err


def test_same_bits_and_bytes():
    if not usable():
        return
    one = ebb("bench", "lm", *MODEL, "--json").json()
    plan = ebb("plan", "lm", *MODEL, "--device", "opencl", "--json").json()
    for memory in (plan["keep_all_bytes"], plan["least_bytes"]):
        two = ebb("bench", "lm", *MODEL, "--device", "opencl", "--memory", memory, "--json").json()
        assert two["weights_hash"] == one["weights_hash"]
        assert two["device_bytes"] == two["device_bytes_allocated"] == two["measured_peak_bytes"] <= memory
        assert two["waits"] == 1 and two["host_syncs"] == 0 and two["allocations_after_first_step"] == 0, two
    refused(4, "bench", "lm", *MODEL, "--device", "opencl", "--memory", plan["least_bytes"] - 1, says=str(plan["least_bytes"]))


def test_inputs_are_planned():
    """The host's memory beside the device has two copies of the batch, and nothing is allocated in a step."""
    if not usable():
        return
    net = ["cnn", "--net", "lenet", "--size", "28", "--classes", "10", "--batch", "64", "--device", "opencl"]
    pixels = 64 * 28 * 28
    shown = ebb("bench", *net, "--steps", "2", "--json").json()
    assert shown["allocations_after_first_step"] == 0 and shown["host_bytes"] > 2 * pixels, shown
    line = refused(4, "bench", *net, "--steps", "1", "--host-memory", 2 * pixels, says="--host-memory ")
    least = int(line.split("--host-memory ")[1].split(")")[0])
    for host in (least, shown["host_bytes"] - 1):
        assert ebb("bench", *net, "--steps", "1", "--host-memory", host, "--json").json()["host_bytes"] <= host


def test_few_launches():
    """Runs of instructions are one launch: two layers over 35 steps have 757 instructions."""
    if usable():
        shape = ["--layers", "2", "--hidden", "16", "--batch", "20", "--bptt", "35", "--vocab", "40", "--dropout", "0.5", "--clip", "5"]
        shown = ebb("bench", "lm", *shape, "--steps", "2", "--device", "opencl", "--json").json()
        assert 0 < shown["launches"] <= 300, shown


def test_tuned():
    """Forms of products are measured and kept as the CPU's are, and change no bit."""
    if not usable():
        return
    model = ["lm", *TINY, "--vocab", "40", "--device", "opencl"]
    report = ebb("tune", *model, "--tune", "store", "--seconds", "600", "--json").json()
    assert report["measured"] > 0 and report["left"] == 0, report
    assert {"tile", "panel"} <= {form["name"] for entry in report["entries"] for form in entry["forms"]}, report
    assert ebb("tune", *model, "--tune", "store", "--json").json()["left"] == 0
    runs = [ebb("bench", *model, "--steps", "2", "--tune", where, "--json").json() for where in ("store", "off")]
    assert runs[0]["weights_hash"] == runs[1]["weights_hash"]
    assert runs[0]["device_bytes"] == runs[0]["device_bytes_allocated"] and runs[0]["host_syncs"] == 0


def test_used():
    """What was trained on the one device is used on the other, with the same answers."""
    if not usable():
        return
    text("t")
    pairs("p")
    ebb("train", "lm", "--train", "t", *TINY, "--steps", "4", "--quiet", "--out", "lm", "--device", "opencl")
    ebb("train", "nmt", "--train", "p.src", "p.tgt", "--hidden", "8", "--batch", "4", "--steps", "4", "--quiet", "--out", "nmt", "--device", "opencl")
    for use in (["generate", "lm", "--length", "12"], ["eval", "lm", "lm", "t"], ["decode", "nmt"]):
        said = []
        for name in ("cpu", "opencl"):
            with open("p.src", "rb") as source:
                said.append(ebb(*use, "--device", name, stdin=source).out)
        assert said[0] == said[1] != "", use
    model = ["lm", *TINY, "--vocab", "40", "--device", "opencl"]
    assert ebb("plan", *model, "--curve").out.count("\n") > 3
    ebb("report", "lm", "page.html")
    assert os.path.getsize("page.html") > 1000


def test_explained():
    """A device has no sparse values, and --explain says so; where none are asked for, nothing is said."""
    net = ["plan", "cnn", "--net", "nin", "--size", "64", "--batch", "4", "--explain"]
    assert ebb(*net, "--json").json()["excluded"] == [] and "no candidates" not in ebb(*net).out
    if usable():
        net += ["--device", "opencl"]
        assert [one["form"] for one in ebb(*net, "--json").json()["excluded"]] == ["sparse"]
        assert "no candidates: sparse forms" in ebb(*net).out and "no candidates" not in ebb(*net, "--density", "none").out


def test_driver_in_trouble():
    if not usable() or not os.path.exists(SHIM):
        return
    failing("nodevice", 2, "bench", "lm", *MODEL, says=["show no device", "--device cpu"])
    found = ebb("devices", "--json", env=shimmed("nodevice")).json()["devices"][1:]
    assert len(found) == 1 and not found[0]["usable"] and "show no device" in found[0]["why_not"], found
    failing("nofp64", 2, "bench", "lm", *MODEL, says=["no such device that can be used", "fp64"])
    found = ebb("devices", "--json", env=shimmed("nofp64")).json()["devices"][1:]
    assert found and all(not d["usable"] and not d["fp64"] and "fp64" in d["why_not"] for d in found), found
    cache = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = os.path.abspath("cache")
    failing("build", 2, "bench", "lm", *MODEL, says=["does not compile"])
    failing("selftest", 2, "bench", "lm", *MODEL, says=["does not compute as the CPU does", "fma"])
    failing("alloc", 8, "bench", "lm", *MODEL, "--hidden", "300", says=["buffer of", "no room"])
    if cache is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = cache


def test_the_next_one():
    """`opencl` is the first that can be used: one that looks usable and computes something else is not it."""
    if not usable() or not os.path.exists(SHIM) or not os.path.exists(OCLGRIND):
        print(f"SKIPPED: no second driver ({OCLGRIND})", flush=True)
        return
    shutil.copytree("/etc/OpenCL/vendors", "vendors")
    write("vendors/oclgrind.icd", OCLGRIND + "\n")
    env = {"OCL_ICD_VENDORS": os.path.abspath("vendors"), "XDG_CACHE_HOME": os.path.abspath("cache"), **shimmed("selftest")}
    found = ebb("devices", "--json", env=env).json()["devices"][1:]
    assert [d["usable"] for d in found] == [False, True], found
    run = ["bench", "lm", *MODEL, "--json"]
    other = ebb(*run, "--device", "opencl", env=env)
    assert other.json()["weights_hash"] == ebb(*run).json()["weights_hash"]
    assert "does not compute as the CPU does" in other.err, other.err
    failed = ebb(*run, "--device", found[0]["device"], expect=2, env=env)
    assert "does not compute as the CPU does" in failed.err, failed.err


def test_kept_kernels():
    """A file of compiled kernels that is damaged is made again. PoCL has none, since it keeps them itself: oclgrind is the driver."""
    if library() is None or SANITIZED or not os.path.exists(OCLGRIND):
        print(f"SKIPPED: no oclgrind ({OCLGRIND}), which keeps nothing itself", flush=True)
        return
    os.mkdir("vendors")
    env = {"OCL_ICD_VENDORS": os.path.abspath(os.path.dirname(write("vendors/oclgrind.icd", OCLGRIND + "\n"))), "XDG_CACHE_HOME": os.path.abspath("cache")}
    folder = os.path.join("cache", "ebb", "kernels")

    def kept():
        found = ebb("devices", "--json", env=env).json()["devices"]
        assert found[1]["usable"], found
        [name] = os.listdir(folder)
        return os.path.join(folder, name)
    path = kept()
    whole = digest(path)
    with open(path, "r+b") as file:
        file.seek(100)
        file.write(b"damaged")
    assert digest(path) != whole and digest(kept()) == whole
    before = os.stat(path).st_mtime_ns
    assert os.stat(kept()).st_mtime_ns == before, "what is whole is used"


def test_device_lost():
    if not usable() or not os.path.exists(SHIM):
        return
    text("t")
    run = ["train", "lm", "--train", "t", *TINY, "--steps", "12", "--save-every", "3", "--quiet"]
    ebb(*run, "--out", "whole")
    failing("launch:400", 7, *run, "--out", "lost", says=["the queue is gone"])
    shutil.copytree("lost", "other")
    failing("wait:8", 7, *run, "--out", "waiting", says=["the queue is gone"])
    ebb(*run, "--out", "waiting")
    assert digest("waiting/last.safetensors") == digest("whole/last.safetensors")
    ebb(*run, "--out", "lost", "--device", "opencl")
    ebb(*run, "--out", "other")
    assert digest("lost/last.safetensors") == digest("other/last.safetensors") == digest("whole/last.safetensors")


main(globals())
