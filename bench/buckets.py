#!/usr/bin/env python3
"""What grouping sentences by length buys: useful words per second of every bucket strategy beside `none`,
which pads all to the longest.

  bench/buckets.py --lm FILE               an LSTM of 8 layers of 200, by sentence
  bench/buckets.py --nmt SRC TGT           translation, hidden size 256

Both can be asked for at once. Each measurement is one whole epoch, so that every shape has its share: over
the whole text or, to be done sooner, over --lines lines spread evenly over it, the longest among them, since
that is what `none` pads to; the fewer, the larger the share of rows that last batches leave empty. Useful
words are labels that count: no padding, no empty rows; of pairs those of the target. The bound is longest /
mean length (of pairs, of both sides together): no grouping can beat it but by what large products do better
than small ones.

Padding and empty rows are those of the programs that are run, of `pool` in an epoch like those that are trained.
Strategies take turns, every measurement is a process of its own, medians over the rounds are shown.
Prints tables in Markdown on standard output, what it is doing on standard error.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STRATEGIES = ["none", "static", "greedy", "percentile", "width", "optimal", "pool", "auto"]
LM = ["--layers", 8, "--hidden", 200]
NMT = ["--hidden", 256]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default=ROOT / "build" / "ebb", type=Path, metavar="FILE", help="the command (default build/ebb)")
    parser.add_argument("--lm", type=Path, metavar="FILE", help="text of the language model")
    parser.add_argument("--nmt", type=Path, nargs=2, metavar=("SRC", "TGT"), help="texts of the translation model, line by line")
    parser.add_argument("--lines", type=int, default=0, metavar="N", help="of the texts that are used (default all)")
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES, choices=STRATEGIES, metavar="NAME", help="default all")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--batch", type=int, default=64, metavar="N", help="default 64")
    parser.add_argument("--shapes", type=int, default=16, metavar="N", help="most programs (default 16)")
    parser.add_argument("--max-len", type=int, default=100, metavar="N", help="tokens of the longest sentence that is used (default 100)")
    parser.add_argument("--vocab", type=int, default=10000, metavar="N", help="default 10000")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))), metavar="N")
    parser.add_argument("--memory", metavar="SIZE", help="budget (default: the command's own)")
    o = parser.parse_args()
    if not o.lm and not o.nmt:
        parser.error("nothing to do: give --lm FILE or --nmt SRC TGT")
    o.strategies = ["none"] + [name for name in o.strategies if name != "none"]
    return o


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(o, *words):
    command = [str(word) for word in [o.ebb, *words, "--quiet", "--json"]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"buckets.py: {' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def table(head, rows):
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


def pick(o, texts, folder):
    """Lines spread evenly over the texts, with the longest that are used; the files they are in."""
    sides = [text.read_text(encoding="utf8").split("\n") for text in texts]
    rows = [row for row in zip(*sides) if all(0 < len(side.split()) <= o.max_len for side in row)]
    if not rows:
        raise SystemExit(f"buckets.py: {' '.join(map(str, texts))}: no line can be used")
    count = min(o.lines or len(rows), len(rows))
    chosen = {i * len(rows) // count for i in range(count)}
    for side in range(len(texts)):
        chosen.add(max(range(len(rows)), key=lambda i, at=side: len(rows[i][at].split())))
    files = []
    for side in range(len(texts)):
        files.append(folder / f"{side}.txt")
        files[-1].write_text("".join(rows[i][side] + "\n" for i in sorted(chosen)), encoding="utf8")
    return files


def epoch(o, kind, model, files, bucket, folder):
    """Useful words per second of one epoch, and the result of the run."""
    out = folder / "run"
    result = run(o, "train", kind, *model, *(["--by-sentence"] if kind == "lm" else []), "--train", *files, "--bucket", bucket,
                 "--epochs", 1, "--log-every", 10**12, "--fresh", "--out", out)
    with open(out / "metrics.jsonl", encoding="utf8") as lines:
        return [json.loads(line) for line in lines][-1]["words_per_second"], result


def measure(o, kind, model, texts):
    model = [*model, "--batch", o.batch, "--shapes", o.shapes, "--max-len", o.max_len, "--vocab", o.vocab, "--threads", o.threads,
             *(["--memory", o.memory] if o.memory else [])]
    with tempfile.TemporaryDirectory(prefix="ebb-buckets-") as name:
        folder = Path(name)
        files = pick(o, texts, folder)
        plan = run(o, "data", "plan", "--" + kind, *files, *model)
        by = {strategy["name"]: strategy for strategy in plan["strategies"]}
        by["auto"] = by[plan["chosen"]]
        bound = sum(plan["longest"]) / sum(plan["mean_length"])
        say(f"{kind}: {plan['sentences_used']} lines, longest {plan['longest']}, mean {[round(x, 2) for x in plan['mean_length']]}, "
            f"bound {bound:.2f}, auto is {plan['chosen']}")
        speeds, peaks = {name: [] for name in o.strategies}, {}
        for turn in range(1, o.rounds + 1):
            for bucket in o.strategies:
                words, result = epoch(o, kind, model, files, bucket, folder)
                speeds[bucket].append(words)
                peaks[bucket] = result["measured_peak_bytes"]
                say(f"round {turn}: {bucket}: {words:.0f} words/s, {result['steps']} steps")
    show(o, plan, by, speeds, peaks, bound)


def show(o, plan, by, speeds, peaks, bound):
    base, rows = statistics.median(speeds["none"]), []
    for bucket in o.strategies:
        s, ratio = by[bucket], statistics.median(speeds[bucket]) / base
        predicted = by["none"]["predicted_epoch_seconds"] / s["predicted_epoch_seconds"]
        rows.append([f"auto ({plan['chosen']})" if bucket == "auto" else bucket, s["programs"], f"{100 * s['computed_share']:.1f}%", s["steps"] * o.batch - s["sentences_used"],
                     f"{peaks[bucket] / 2**20:.1f}", f"{statistics.median(speeds[bucket]):.0f}", f"{min(speeds[bucket]):.0f}..{max(speeds[bucket]):.0f}",
                     f"{ratio:.2f}x", f"{predicted:.2f}x", f"{100 * ratio / bound:.0f}%"])
    what = "8 x 200 LSTM by sentence" if plan["model"] == "lm" else "NMT, hidden 256"
    print(f"{what}, batch {o.batch}, vocabulary {o.vocab}, {o.threads} threads: {plan['sentences_used']} lines, longest / mean {bound:.2f} (the bound); "
          f"whole epochs, medians of {o.rounds} rounds.\n")
    table(["strategy", "programs", "padding", "empty rows", "peak, MiB", "useful words/s", "range", "against none", "predicted", "of the bound"], rows)


def main():
    o = options()
    if o.lm:
        measure(o, "lm", LM, [o.lm])
    if o.nmt:
        measure(o, "nmt", NMT, o.nmt)


if __name__ == "__main__":
    main()
