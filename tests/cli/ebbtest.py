"""What the tests of the command share: running it, a small text, and a harness that runs every
function test_* of a file in an empty folder of its own and ends with `N passed, N failed`."""
import gzip
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import zlib

EBB = os.path.abspath(os.environ.get("EBB", "build/ebb"))
os.environ.setdefault("EBB_TUNE", "off")
SANITIZED = bool(os.environ.get("EBB_SANITIZE"))

# The smallest model that still has everything.
TINY = ["--layers", "1", "--hidden", "8", "--batch", "4", "--bptt", "5", "--threads", "1"]


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def json(self):
        return json.loads(self.out)


def ebb(*args, expect=0, env=None, **options):
    """Runs the command and checks its exit code; a failure must be exactly one line `ebb: ...`."""
    done = subprocess.run([EBB, *map(str, args)], capture_output=True, timeout=250,
                          env={**os.environ, **(env or {})}, **options)
    result = Result(done.returncode, done.stdout.decode("utf8", "replace"), done.stderr.decode("utf8", "replace"))
    assert result.code == expect, f"{args}: exit {result.code}, not {expect}\n{result.err}"
    return result


def refused(code, *args, says=()):
    """The command fails with `code`, one line on stderr that holds every text of `says`, no output."""
    result = ebb(*args, expect=code)
    lines = result.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("ebb: "), f"{args}: not one line: {result.err!r}"
    assert result.out == "", f"{args}: output of a failed command: {result.out[:200]!r}"
    for text in [says] if isinstance(says, str) else says:
        assert text in lines[0], f"{args}: no {text!r} in {lines[0]!r}"
    return lines[0]


def write(path, data):
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def text(path, lines=300, seed=1):
    """A text with a little structure and about 30 different words."""
    dice = random.Random(seed)
    words = ["w%d" % i for i in range(30)]
    return write(path, "".join(" ".join(words[(i * j + dice.randrange(3)) % 30] for j in range(8)) + "\n" for i in range(lines)))


def train_command(steps, out, *more):
    """A run that draws, saves and validates, on the texts of train_texts()."""
    return ["train", "lm", *TINY, "--train", "t", "--valid", "v", "--dropout", "0.2", "--optimizer", "adam", "--steps", str(steps),
            "--save-every", "7", "--log-every", "10", "--out", out, *more]


def train_texts():
    text("t", 200)
    text("v", 20, seed=2)


def pairs(name, lines=60, seed=1, longest=9):
    """name.src and name.tgt: the target is the source backwards, in other words."""
    dice = random.Random(seed)
    rows = [[dice.randrange(12) for _ in range(dice.randint(1, longest))] for _ in range(lines)]
    source = write(name + ".src", "".join(" ".join("s%d" % w for w in row) + "\n" for row in rows))
    target = write(name + ".tgt", "".join(" ".join("t%d" % w for w in reversed(row)) + "\n" for row in rows))
    return [source, target]


# ---- images ----

def pixels(dice, label, side=8, channels=1):
    """Stripes across, down, or both, [side][side][channels], with noise."""
    phase = dice.randrange(2)
    return [[[min(255, 40 + 150 * ((label != 2 and (y + phase) % 2) or (label != 0 and (x + phase) % 2)) + dice.randrange(60))
              for _ in range(channels)] for x in range(side)] for y in range(side)]


NAMES = ["across", "both", "down"]


def png(path, image):
    """RGB of 8 bits; image as pixels() gives it."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = struct.pack(">IIBBBBB", len(image[0]), len(image), 8, 2, 0, 0, 0)
    rows = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in image)
    return write(path, b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def photos(folder, each, seed, names=NAMES, side=8):
    for name in names:
        dice = random.Random(f"{seed} {name}")
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        for i in range(each):
            png(f"{folder}/{name}/{i:03}.png", pixels(dice, NAMES.index(name), side, 3))
    return folder


def idx(folder, part, count, seed, classes=3, side=8, pack=False):
    os.makedirs(folder, exist_ok=True)
    dice = random.Random(seed)
    labels = bytes(dice.randrange(classes) for _ in range(count))
    images = b"".join(bytes(row[x][0] for row in pixels(dice, label, side) for x in range(side)) for label in labels)
    put = (lambda name, data: write(f"{folder}/{name}.gz", gzip.compress(data))) if pack else (lambda name, data: write(f"{folder}/{name}", data))
    put(f"{part}-images-idx3-ubyte", struct.pack(">IIII", 0x803, count, side, side) + images)
    put(f"{part}-labels-idx1-ubyte", struct.pack(">II", 0x801, count) + labels)
    return folder


# ---- files ----

def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


# ---- runs ----

def weights(folder):
    return digest(folder + "/last.safetensors"), digest(folder + "/best.safetensors")


def metrics(folder):
    """Without what depends on time, and on the memory that happens to be free."""
    with open(folder + "/metrics.jsonl", encoding="utf8") as file:
        return [{k: v for k, v in json.loads(line).items() if k not in ("words_per_second", "images_per_second", "memory_bytes")} for line in file]


def start(*args):
    return subprocess.Popen([EBB, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for_step(process, folder, step, deadline=200):
    """Until a checkpoint of `step` or later is there."""
    end = time.time() + deadline
    while time.time() < end and process.poll() is None:
        found = [int(name[5:-5]) for name in (os.listdir(folder) if os.path.isdir(folder) else []) if name.startswith("ckpt-") and name.endswith(".json")]
        if found and max(found) >= step:
            return
        time.sleep(0.002)


# ---- MPI ----

MPI_PLUGIN = os.path.dirname(EBB) + "/ebb_mpi.so"
OPEN_MPI = bool(shutil.which("mpirun")) and "Open MPI" in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout


def mpi_environment(**more):
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}
    if SANITIZED:  # what MPI keeps until the end is no leak of ours
        env["ASAN_OPTIONS"] = "detect_leaks=0"
    return {name: value for name, value in env.items() if value is not None}


def mpirun_command(count, *line):
    """More processes than cores, wherever they may run."""
    return ["mpirun", *(["--oversubscribe", "--bind-to", "none"] if OPEN_MPI else []), "-np", str(count), *map(str, line)]


def outlives(process):
    """Whether all processes that it started have ended, and it has not taken note of all of them."""
    states = []
    try:
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf8") as file:
            for pid in file.read().split():
                with open(f"/proc/{pid}/stat", encoding="utf8") as stat:
                    states.append(stat.read().rsplit(")", 1)[1].split()[0])
    except OSError:  # one that went meanwhile was noted
        return False
    return bool(states) and all(state == "Z" for state in states)


def patiently(process, seconds=200, ending=20):
    """What the mpirun says until it ends; None if it hangs: it is still there `ending` seconds after the last of its processes."""
    last, alone = time.time() + seconds, 0
    while alone < ending:
        try:
            return process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            alone = alone + 1 if outlives(process) else 0
            if time.time() > last:
                raise
    return None


def mpirun(count, *line, **env):
    """The ended run of `line` in `count` processes. Open MPI 4.1's mpirun now and then crashes or hangs itself
    (in PMIx_server_finalize, a lock that its own thread waits for) while it ends a job that failed, after all
    processes have ended (one of ours that crashed would be exit 139): such a run says nothing, and is done again."""
    for _ in range(3):
        with subprocess.Popen(mpirun_command(count, *line), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=mpi_environment(**env),
                              stdin=subprocess.DEVNULL) as process:
            try:
                said = patiently(process)
            finally:
                process.kill()
        if said is not None and process.returncode != -signal.SIGSEGV:
            return subprocess.CompletedProcess(process.args, process.returncode, *said)
        print(f"mpirun itself {'hung' if said is None else 'crashed'}: {count} x {line} is run again", flush=True)
    raise AssertionError(f"mpirun itself hung or crashed three times: {count} x {line}")


def main_with_mpi(tests):
    """main() where there are mpirun and the plugin; says so loudly where not."""
    if os.environ.get("EBB_SANITIZE") == "thread":
        print("SKIP: MPI under TSan")
        sys.exit(77)
    if not shutil.which("mpirun") or not os.path.exists(MPI_PLUGIN):
        print("SKIP: no MPI here (no mpirun, or no ebb_mpi.so was built): install libopenmpi-dev and openmpi-bin")
        sys.exit(77)
    main(tests)


def main(scope):
    """Runs the tests of a module; pass globals()."""
    passed = failed = 0
    for name, test in [item for item in scope.items() if item[0].startswith("test_")]:
        folder, before = tempfile.mkdtemp(), os.getcwd()
        os.chdir(folder)
        try:
            test()
            passed += 1
        except Exception:
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc()}")
        finally:
            os.chdir(before)
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
