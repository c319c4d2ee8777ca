"""TensorBoard event files of runs: read back record by record, and with TensorBoard's own reader
where there is one (package tensorboard, of this python or of the one that EBB_TEST_PYTHON names).
They say what metrics.jsonl says, every step once, whatever happened to the run on its way."""
import json
import os
import signal
import struct
import subprocess
import sys

from ebbtest import TINY, ebb, main, refused, start, text, wait_for_step, weights, write

TAGS = {"loss": "train/loss", "lr": "train/learning_rate", "gradient_norm": "train/gradient_norm",
        "words_per_second": "train/words_per_second", "memory_bytes": "memory/bytes",
        "valid_perplexity": "valid/perplexity", "valid_bleu": "valid/bleu"}

# Reads the folder, and again for every line on standard input; prints scalars by tag.
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
board = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}, purge_orphaned_data=sys.argv[2] == "purge")
while True:
    board.Reload()
    print(json.dumps({tag: [[e.step, e.value] for e in board.Scalars(tag)] for tag in board.Tags()["scalars"]}), flush=True)
    if not sys.stdin.readline():
        break
"""


def find_reader():
    for python in [sys.executable, os.environ.get("EBB_TEST_PYTHON")]:
        found = python and subprocess.run([python, "-c", "import tensorboard.backend.event_processing.event_accumulator"],
                                          stderr=subprocess.DEVNULL, check=False).returncode == 0
        if found:
            return python
    return None


PYTHON = find_reader()


# ---- reading by hand ----

def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert masked_crc(data[at:at + 8]) == check, path
        event = data[at + 12:at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked_crc(event), path
        yield event
        at += 16 + length


def fields(message):
    """Pairs of number and value: bytes, or an integer of a varint."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        length = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, message[at:at + length]
        at += length


def events(folder):
    """Every event of every file, by age: step, scalars by tag, whether it is a START."""
    found = []
    for name in sorted(name for name in os.listdir(folder) if "tfevents" in name):
        assert name.startswith("events.out.tfevents.") and name.count(".") >= 6, name
        for i, record in enumerate(records(os.path.join(folder, name))):
            event = dict(fields(record))
            assert 1.5e9 < struct.unpack("<d", event[1])[0] < 1e11
            if i == 0:
                assert event[3] == b"brain.Event:2"
                continue
            scalars = {}
            for _, value in fields(event.get(5, b"")):
                value = dict(fields(value))
                scalars[value[1].decode()] = struct.unpack("<f", value[2])[0]
            found.append((event.get(2, 0), scalars, 7 in event and dict(fields(event[7])) == {1: 1}))
    return found


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def lines_of(out):
    with open(out + "/metrics.jsonl", encoding="utf8") as file:
        return [json.loads(line) for line in file]


def held(folder):
    """Files with something in them."""
    return {name for name in os.listdir(folder) if "tfevents" in name and os.path.getsize(folder + "/" + name) > 0}


def check(folder, out):
    """What the files say is what the metrics say; returns it by tag."""
    by_tag = {}
    seen = [(step, scalars) for step, scalars, _ in events(folder) if scalars]
    lines = lines_of(out)
    assert [step for step, _ in seen] == [line["step"] for line in lines]
    assert len({step for step, _ in seen}) == len(seen)
    for (step, scalars), line in zip(seen, lines):
        assert scalars == {TAGS[key]: float32(value) for key, value in line.items() if key not in ("step", "epoch")}
        for tag, value in scalars.items():
            by_tag.setdefault(tag, []).append([step, value])
    return by_tag


# ---- runs ----

def command(steps, out, *more):
    return ["train", "lm", *TINY, "--train", "t", "--valid", "v", "--steps", str(steps), "--save-every", "37", "--log-every", "3",
            "--out", out, "--tensorboard", out + "-board", *more]


def texts():
    text("t", 200)
    text("v", 20, seed=2)


def test_a_run_writes_one_file():
    texts()
    ebb(*command(60, "run", "--quiet"))
    assert set(check("run-board", "run")) == set(TAGS.values()) - {"valid/bleu"}
    assert len(os.listdir("run-board")) == 1
    assert [(step, started) for step, scalars, started in events("run-board") if not scalars] == [(1, True)]
    with open("run/events", encoding="utf8") as file:
        assert file.read().split() == os.listdir("run-board")
    before = os.stat("run-board/" + os.listdir("run-board")[0])
    ebb(*command(60, "run", "--quiet"))  # finished
    after = os.stat("run-board/" + os.listdir("run-board")[0])
    assert (before.st_ino, before.st_size, before.st_mtime_ns) == (after.st_ino, after.st_size, after.st_mtime_ns)
    ebb(*command(90, "run", "--quiet"))  # and on, in the same file
    check("run-board", "run")
    assert len(os.listdir("run-board")) == 1
    plain = command(90, "plain", "--quiet")
    del plain[plain.index("--tensorboard"):][:2]
    ebb(*plain)
    assert weights("plain") == weights("run")


def kill_and_resume(steps, after=lambda: None):
    """A run killed again and again, most times beyond its newest checkpoint."""
    kills = 0
    for step in [0, 0, 1, 38, 75, 75, 150, 260]:
        process = start(*command(steps, "run"))
        wait_for_lines(process, "run", step + 20)
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        after()
    assert kills >= 5
    ebb(*command(steps, "run", "--quiet"))
    after()


def wait_for_lines(process, out, step):
    """Until a step's line is in the metrics."""
    wait_for_step(process, out, step - step % 37 - 37)
    while process.poll() is None:
        if os.path.exists(out + "/metrics.jsonl"):
            with open(out + "/metrics.jsonl", encoding="utf8") as file:
                whole = file.read().split("\n")[:-1]
            if whole and json.loads(whole[-1])["step"] >= step:
                return


def test_no_step_twice_after_kills():
    texts()
    kill_and_resume(500)
    check("run-board", "run")
    seen = events("run-board")
    # What a file starts with is right before the first step that it holds, for those who look at it.
    started = [i for i, (_, _, start_here) in enumerate(seen) if start_here]
    assert len(started) == len(held("run-board")) > 2
    for i in started:
        assert all(step < seen[i][0] for step, scalars, _ in seen[:i] if scalars)
        assert all(step >= seen[i][0] for step, scalars, _ in seen[i:] if scalars)


def test_starting_over():
    texts()
    ebb(*command(60, "run", "--quiet"))
    old = held("run-board")
    write("run-board/other", "not of this run")
    for _ in range(3):
        ebb(*command(30, "run", "--quiet", "--seed", "2", "--fresh"))
        check("run-board", "run")
        assert len(held("run-board")) == 1 and not held("run-board") & old
    # The youngest one is not removed but emptied: an open viewer waits at its end.
    assert len(os.listdir("run-board")) == 3 and os.path.exists("run-board/other")
    ebb(*command(60, "run", "--quiet", "--seed", "2", "--tensorboard", "run"))  # the run's own folder, from here on
    assert [step for step, scalars, _ in events("run") if scalars] == [line["step"] for line in lines_of("run") if line["step"] > 30]


def test_translation():
    write("s", "".join(" ".join("s%d" % ((i + k) % 5) for k in range(3)) + "\n" for i in range(40)))
    write("r", "".join(" ".join("t%d" % ((i + k) % 5) for k in range(3)) + "\n" for i in range(40)))
    result = ebb("train", "nmt", "--hidden", "16", "--batch", "8", "--threads", "1", "--lr", "0.02", "--train", "s", "r", "--valid", "s", "r",
                 "--epochs", "8", "--valid-metric", "bleu", "--tensorboard", "board", "--out", "run", "--quiet", "--json").json()
    scores = [value for _, value in check("board", "run")["valid/bleu"]]
    assert len(scores) == 8 and max(scores) == float32(result["best_bleu"]) and scores[-1] == float32(result["valid_bleu"])


def test_folders():
    texts()
    refused(2, *command(10, "run", "--quiet", "--tensorboard", "no/board"), says=["--tensorboard", "no/board"])
    refused(2, *command(10, "run", "--quiet", "--tensorboard", "t"), says=["--tensorboard", "not a folder"])
    assert not os.path.exists("run/metrics.jsonl") and not os.path.exists("no")
    os.mkdir("there")
    ebb(*command(10, "run", "--quiet", "--tensorboard", "there"))
    check("there", "run")


if PYTHON:
    def view(folder, purge):
        return subprocess.Popen([PYTHON, "-c", READER, folder, purge], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)

    def test_tensorboard_reads_it():
        texts()
        ebb(*command(100, "run", "--quiet"))
        for purge in ["purge", "keep"]:
            seen = json.loads(view("run-board", purge).communicate()[0])
            assert seen == check("run-board", "run")

    def test_tensorboard_sees_no_step_twice():
        """Opened afterwards, or watching all the time; minding restarts or not."""
        texts()
        os.mkdir("run-board")
        live = view("run-board", "purge")
        live.stdout.readline()
        last = None

        def look():
            nonlocal last
            live.stdin.write("\n")
            live.stdin.flush()
            last = json.loads(live.stdout.readline())

        kill_and_resume(500, look)
        live.communicate()
        said = check("run-board", "run")
        assert last == said
        for purge in ["purge", "keep"]:
            assert json.loads(view("run-board", purge).communicate()[0]) == said
else:
    print("ok 1 # SKIP tests with TensorBoard's own reader: no package tensorboard here; EBB_TEST_PYTHON may name a python that has it")

main(globals())
