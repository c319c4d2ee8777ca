#!/usr/bin/env python3
"""Translation beside PyTorch on real text: speed and memory of `ebb decode` and of `ebb train nmt`.

  bench/translate.py --run DIR --src FILE [--ref FILE]     decode: a run of ebb's, translated by both
  bench/translate.py --train SRC TGT                       train: fresh models, some steps

Both can be asked for at once. ebb and PyTorch take turns, every measurement is a process of its own on
--threads cores, medians over the rounds are shown. Prints tables in Markdown on standard output, what it
is doing on standard error; translations and runs are in OUT. Exit code 77 if ebb or PyTorch is not there.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench" / "peers"
MIB = 2**20
DECODE_FLOOR, TRAIN_FLOOR, MEMORY_FLOOR = 1.5, 1.5, 0.4
MODES = {"eager": "PyTorch", "compile": "PyTorch, torch.compile"}
# What bench/peers/torch_multi30k.py trains.
MODEL = ["--feed", "--attention", "mlp", "--embed", 256, "--hidden", 512, "--dropout", 0.3, "--smoothing", 0.1,
         "--optimizer", "adam", "--lr", 0.001, "--clip", 1]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default=ROOT / "build" / "ebb", type=Path, metavar="FILE", help="the command (default build/ebb)")
    parser.add_argument("--peer-python", default=os.environ.get("PEER_PYTHON") or ROOT / "build" / "peers" / "bin" / "python",
                        metavar="FILE", help="a Python with torch (default: PEER_PYTHON, else what bench/peers/setup.sh made)")
    parser.add_argument("--out", default=ROOT / "build" / "bench-translate", type=Path, metavar="DIR",
                        help="translations, runs and measured times (default build/bench-translate)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="default 2")
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="default 64")
    parser.add_argument("--memory", metavar="SIZE", help="budget of ebb (default: its own)")
    parser.add_argument("--mode", action="append", choices=MODES, help="of PyTorch (repeatable; default all)")
    decode = parser.add_argument_group("decode")
    decode.add_argument("--run", type=Path, metavar="DIR", help="folder that `ebb train nmt` made")
    decode.add_argument("--src", type=Path, metavar="FILE", help="sentences to translate")
    decode.add_argument("--ref", type=Path, metavar="FILE", help="their translations, for BLEU")
    decode.add_argument("--beam", type=int, default=5, metavar="N", help="default 5")
    train = parser.add_argument_group("train")
    train.add_argument("--train", type=Path, nargs=2, metavar=("SRC", "TGT"), help="texts to learn from, line by line")
    train.add_argument("--steps", type=int, default=200, metavar="N", help="of each run (default 200)")
    train.add_argument("--log-every", type=int, default=25, metavar="N", help="steps of a window of measuring (default 25)")
    train.add_argument("--skip", type=int, default=2, metavar="N", help="first windows that do not count (default 2)")
    o = parser.parse_args()
    if not o.train and not o.run:
        parser.error("nothing to do: give --run and --src, or --train")
    o.mode = o.mode or list(MODES)
    if o.run and not o.src:
        parser.error("--run needs --src")
    if o.train and o.steps < (o.skip + 1) * o.log_every:
        parser.error("--steps leaves nothing to measure: it takes at least (--skip + 1) times --log-every")
    return o


def say(text):
    print(text, file=sys.stderr, flush=True)


class Ran:
    """A finished process: standard output, seconds, and the most bytes that were resident."""

    def __init__(self, o, command, stdin=None, stdout=None):
        command = [str(part) for part in command]
        errors = o.out / "stderr.txt"
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(allowed)[:o.threads])  # inherited: the same cores for both
        try:
            with open(stdin or os.devnull, "rb") as source, open(stdout or o.out / "stdout.txt", "wb") as to, open(errors, "wb") as trouble:
                start = time.perf_counter()
                process = subprocess.Popen(command, stdin=source, stdout=to, stderr=trouble,
                                           env={"EBB_TUNE": str(o.out / "tune"), **os.environ})
                _, status, usage = os.wait4(process.pid, 0)
                self.seconds = time.perf_counter() - start
        finally:
            os.sched_setaffinity(0, allowed)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"translate.py: exit code {process.returncode}: {' '.join(command)}\n"
                             + errors.read_text(encoding="utf-8", errors="replace").strip()[-2000:])
        self.text = "" if stdout else (o.out / "stdout.txt").read_text(encoding="utf-8")
        self.peak = usage.ru_maxrss * 1024  # VmHWM


def peer(o, mode, engine, script, *words):
    """Result of a process of bench/peers; its memory is noted, of `engine`."""
    ran = Ran(o, [o.peer_python, PEERS / script, *words, "--mode", mode, "--batch", o.batch, "--threads", o.threads])
    result = json.loads(ran.text)
    engine.note(ran.peak, result["library_mib"] * MIB)
    return result


def budget(o):
    return ["--memory", o.memory] if o.memory else []


def table(head, rows):
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


def verdict(ratio, floor, above):
    return f"{ratio:.2f}x ({'PASS' if (ratio >= floor if above else ratio <= floor) else 'short'}, {floor:g}x)"


def figures(values, digits=0):
    """The median, and all of them."""
    return f"{statistics.median(values):.{digits}f} ({', '.join(f'{value:.{digits}f}' for value in values)})"


class Engine:
    """What the rounds of one side gave: speeds; the peak, for a peer less `import torch`, and the whole."""

    def __init__(self):
        self.speeds, self.peaks, self.wholes = [], [], []

    def note(self, whole, library=0):
        self.wholes.append(whole)
        self.peaks.append(whole - library)

    def row(self, name, digits):
        return [name, figures(self.speeds, digits), f"{self.peak() / MIB:.0f}", f"{self.whole() / MIB:.0f}"]

    def speed(self):
        return statistics.median(self.speeds)

    def peak(self):
        return statistics.median(self.peaks)

    def whole(self):
        return statistics.median(self.wholes)


def compare(unit, digits, ours, peers, speed_floor):
    """peers: {mode: Engine}; speed against the fastest, memory against the smallest."""
    table(["", unit, "MiB", "MiB, whole process"],
          [ours.row("ebb", digits), *(engine.row(MODES[mode], digits) for mode, engine in peers.items())])
    fastest = max(engine.speed() for engine in peers.values())
    least, whole = (min(engine.peak() for engine in peers.values()), min(engine.whole() for engine in peers.values()))
    print(f"Speed {verdict(ours.speed() / fastest, speed_floor, True)}, memory {verdict(ours.peak() / least, MEMORY_FLOOR, False)}; "
          f"of the whole processes {ours.whole() / whole:.2f}x.\n", flush=True)


def progress(what, number, unit, ours, peers):
    shown = [f"{name} {engine.speeds[-1]:.1f}" for name, engine in {"ebb": ours, **{MODES[mode]: e for mode, e in peers.items()}}.items()]
    say(f"{what}, round {number}: {', '.join(shown)} {unit}")


# ---- decode ----

def translate(o, to):
    command = [o.ebb, "decode", o.run, "--beam", o.beam, "--batch", o.batch, "--threads", o.threads, *budget(o)]
    return Ran(o, command, stdin=o.src, stdout=to)


def bleu(o, hypotheses):
    return json.loads(Ran(o, [o.ebb, "eval", "bleu", hypotheses, o.ref, "--tok", "none", "--json"]).text)["bleu"]


def decode(o):
    ours, peers = Engine(), {mode: Engine() for mode in o.mode}
    here, there = o.out / "ebb.hyp", o.out / "torch.hyp"
    sentences = len(o.src.read_bytes().removesuffix(b"\n").split(b"\n"))
    say("decode: a first run of ebb, in which it may time products")
    translate(o, here)
    for number in range(1, o.rounds + 1):
        ran = translate(o, here)
        ours.speeds.append(sentences / ran.seconds)
        ours.note(ran.peak)
        for mode, engine in peers.items():
            result = peer(o, mode, engine, "torch_decode.py", o.run, o.src, "--out", there, "--beam", o.beam)
            engine.speeds.append(result["sentences_per_second"])
        progress("decode", number, "sentences/s", ours, peers)
    print(f"Decoding {o.src.name}: {sentences} sentences, beam {o.beam}, batch {o.batch}, {o.threads} threads. ebb: the whole process; "
          "PyTorch: without loading and compiling.\n")
    compare("sentences/s", 1, ours, peers, DECODE_FLOOR)
    pairs = list(zip(here.read_bytes().split(b"\n"), there.read_bytes().split(b"\n"), strict=True))[:-1]
    same = sum(a == b for a, b in pairs)
    print(f"The same translation: {same} of {len(pairs)} lines ({100 * same / len(pairs):.1f}%).")
    if o.ref:
        print(f"BLEU: ebb {bleu(o, here):.2f}, PyTorch {bleu(o, there):.2f}.")
    print(flush=True)


# ---- train ----

def learn(o, seed, steps):
    """(words/s of each window, the process) of a fresh run."""
    folder = o.out / "run"
    shutil.rmtree(folder, ignore_errors=True)
    ran = Ran(o, [o.ebb, "train", "nmt", "--train", *o.train, "--out", folder, *MODEL, "--batch", o.batch, "--steps", steps,
                  "--log-every", o.log_every, "--seed", seed, "--threads", o.threads, "--quiet", *budget(o)])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line["words_per_second"] for line in lines], ran


def train(o):
    ours, peers = Engine(), {mode: Engine() for mode in o.mode}
    say("train: a first run of ebb, in which it may time products")
    learn(o, 1, 2)
    for number in range(1, o.rounds + 1):
        speeds, ran = learn(o, number, o.steps)
        ours.speeds.append(statistics.median(speeds[o.skip:]))
        ours.note(ran.peak)
        for mode, engine in peers.items():
            result = peer(o, mode, engine, "torch_multi30k.py", *o.train, "--steps", o.steps, "--log-every", o.log_every, "--seed", number)
            engine.speeds.append(statistics.median(result["words_per_second"][o.skip:]))
        progress("train", number, "words/s", ours, peers)
    print(f"Training on {o.train[0].name}, {o.train[1].name}: embedding 256, hidden 512, batch {o.batch}, {o.threads} threads, target "
          f"words/s; medians over windows of {o.log_every} steps from step {o.skip * o.log_every + 1} to {o.steps}.\n")
    compare("words/s", 0, ours, peers, TRAIN_FLOOR)


def main():
    o = options()
    o.out.mkdir(parents=True, exist_ok=True)
    for command, missing in (([o.ebb, "--version"], f"no command {o.ebb}; run make, or name it with --ebb"),
                             ([o.peer_python, "-c", "import torch, safetensors"],
                              f"{o.peer_python} has no torch; run bench/peers/setup.sh, or name one with --peer-python")):
        try:
            subprocess.run([str(part) for part in command], capture_output=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            say(f"SKIPPED translate.py: {missing}")
            return 77
    if o.run:
        decode(o)
    if o.train:
        train(o)
    return 0


if __name__ == "__main__":
    sys.exit(main())
