#!/usr/bin/env python3
"""What recomputation buys with a fixed amount of memory: speed, and size of the model.

speed   one translation model, one budget. The largest batch with everything kept, the largest that
        fits at all, and the one between them that is predicted to be the fastest: words per second,
        measured in turns, medians over the rounds.
size    the largest hidden size (multiples of 64) and the most layers that fit a limit, with and
        without the pass recompute. Only plans are made.

Prints tables in Markdown on standard output, what it is doing on standard error.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ["--disable", "recompute", "--disable", "chunk"]
FINE, COARSE = 16, 8  # as --batch auto: every batch up to 16, multiples of 8 above


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default=ROOT / "build" / "ebb", type=Path, metavar="FILE", help="the command (default build/ebb)")
    parser.add_argument("--part", choices=["speed", "size", "all"], default="all")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))), metavar="N")
    parser.add_argument("--vocab", type=int, default=10000, metavar="N")
    speed = parser.add_argument_group("speed")
    speed.add_argument("--memory", default="600M", metavar="SIZE", help="the budget (default 600M)")
    speed.add_argument("--hidden", type=int, default=512, metavar="N", help="units of a layer (default 512); for size: where layers are counted")
    speed.add_argument("--length", type=int, default=50, metavar="N", help="positions of sources and targets (default 50); for size too")
    speed.add_argument("--rounds", type=int, default=5, metavar="N", help="medians are shown (default 5)")
    speed.add_argument("--steps", type=int, default=3, metavar="N", help="timed steps of a round (default 3)")
    larger = parser.add_argument_group("size")
    larger.add_argument("--limit", default="1G", metavar="SIZE", help="what the model must fit (default 1G)")
    larger.add_argument("--batch", type=int, default=128, metavar="N", help="default 128")
    larger.add_argument("--bptt", type=int, default=100, metavar="N", help="time steps of the language model (default 100)")
    larger.add_argument("--most-hidden", type=int, default=8192, metavar="N", help="where to stop (default 8192)")
    larger.add_argument("--most-layers", type=int, default=64, metavar="N", help="where to stop (default 64)")
    return parser.parse_args()


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(o, *words):
    """The JSON of a command; None if nothing fits the budget."""
    command = [str(word) for word in [o.ebb, *words, "--vocab", o.vocab, "--threads", o.threads, "--quiet", "--json"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 4):
        raise SystemExit(f"fit.py: {' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout) if done.returncode == 0 else None


def table(head, rows):
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


# ---- speed ----

def round_down(batch):
    return batch if batch <= FINE else batch - batch % COARSE


def between(least, most):
    """Batches from the one to the other, each about 1.4 times the last."""
    found, at = {least, most}, float(least)
    while at < most:
        found.add(round_down(int(at)))
        at *= 2 ** 0.5
    return sorted(found)


def speed(o):
    model = ["nmt", "--hidden", o.hidden, "--src-len", o.length, "--tgt-len", o.length]
    plan = lambda batch, *more: run(o, "plan", *model, "--memory", o.memory, "--batch", batch, *more)  # noqa: E731
    kept, most = plan("auto", *KEPT), plan("auto")
    if most is None:
        raise SystemExit(f"fit.py: nothing fits in {o.memory}")
    say(f"{o.memory}: batch {kept['batch'] if kept else 'none'} with everything kept, {most['batch']} at most")
    tried = {batch: plan(batch) for batch in between(kept["batch"] if kept else 1, most["batch"])}
    fastest = max((batch for batch in tried if tried[batch]), key=lambda batch: batch / tried[batch]["seconds_per_step"])
    ways = [("everything kept, largest batch", kept["batch"], KEPT)] if kept else []
    ways += [("recomputing, fastest batch (predicted)", fastest, []), ("recomputing, largest batch", most["batch"], [])]
    results = {name: [] for name, _, _ in ways}
    for turn in range(1, o.rounds + 1):
        for name, batch, more in ways:
            seen = run(o, "bench", *model, "--memory", o.memory, "--batch", batch, "--steps", o.steps, *more)
            results[name].append(seen)
            say(f"round {turn}: batch {batch}, {name}: {seen['words_per_second']:.0f} words/s")
    base, rows = None, []
    for name, batch, _ in ways:
        words = statistics.median(seen["words_per_second"] for seen in results[name])
        base = base or words
        rows.append([name, batch, f"{results[name][0]['planned_peak_bytes'] / 2**20:.1f}", f"{words:.0f}", f"{words / base:.2f}x"])
    print(f"NMT 1+1 x {o.hidden}, MLP attention, S = T = {o.length}, vocabulary {o.vocab}, Adam, {o.threads} threads, "
          f"--memory {o.memory}; medians of {o.rounds} rounds of {o.steps} steps.\n")
    table(["plan", "batch", "peak, MiB", "words/s", "against the first"], rows)


# ---- size ----

def largest(fits, most):
    """The largest n from 1 to `most` that fits; 0 if none does."""
    good, bad = 0, 1
    while bad <= most and fits(bad):
        good, bad = bad, 2 * bad
    bad = min(bad, most + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def sizes_of(o, name, base, side, layers):
    """A row for the hidden size and one for the layers; `layers(n)` are the options of n of them."""
    def fits(more, disabled):
        plan = run(o, "plan", *base, "--batch", o.batch, "--memory", o.limit, *more, *disabled)
        say(f"{name}: {' '.join(map(str, [*more, *disabled]))}: {'fits' if plan else 'does not fit'}")
        return plan is not None

    rows = []
    for what, unit, most, more in [(f"hidden size, 1 layer{side}", 64, o.most_hidden // 64, lambda n: ["--hidden", 64 * n, *layers(1)]),
                                   (f"layers{side} of {o.hidden}", 1, o.most_layers, lambda n: ["--hidden", o.hidden, *layers(n)])]:
        without, with_it = (largest(lambda n, d=disabled: fits(more(n), d), most) for disabled in (["--disable", "recompute"], []))
        shown = [f"{unit * n}{' or more' if n == most else ''}" if n else "none fits" for n in (without, with_it)]
        rows.append([name, what, *shown, f"{with_it / without:.2f}x" if without else ""])
    return rows


def model_size(o):
    pair = ["nmt", "--src-len", o.length, "--tgt-len", o.length]
    rows = sizes_of(o, f"NMT, S = T = {o.length}", pair, " a side", lambda n: ["--enc-layers", n, "--dec-layers", n])
    rows += sizes_of(o, f"LM, T = {o.bptt}", ["lm", "--bptt", o.bptt], "", lambda n: ["--layers", n])
    print(f"What fits in {o.limit} with batch {o.batch}, vocabulary {o.vocab}, {o.threads} threads (plans only; NMT: Adam, LM: SGD).\n")
    table(["model", "largest", "without recompute", "with", "gain"], rows)


def main():
    o = options()
    if not o.ebb.is_file():
        raise SystemExit(f"fit.py: there is no {o.ebb}; build it with make, or name it with --ebb")
    if o.part in ("speed", "all"):
        speed(o)
    if o.part in ("size", "all"):
        model_size(o)
    return 0


if __name__ == "__main__":
    sys.exit(main())
