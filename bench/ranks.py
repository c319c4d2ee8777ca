#!/usr/bin/env python3
"""Several processes on one machine: data parallel in its three ways, and stages, beside one process.

  bench/ranks.py                 the model of 8 layers of 400, batch 20, 35 steps, vocabulary 10,000
  bench/ranks.py --rounds 5 --ranks 4 --virtual     what four processes with a core each would take
  bench/ranks.py --ranks 4 --virtual --network 1G,50us --parts      the same, each on a host of its own
  bench/ranks.py --ranks 4 --virtual --batches 8 20 40 80 160       over batches

  bench/ranks.py --ranks 4 --virtual --sentences train.de            sentences in shapes of their own, by stages
  bench/ranks.py --ranks 4 --virtual --perplexity train.txt valid.txt -- --layers 4 --hidden 200
                                                                     perplexity by steps and by seconds

Every measurement is `mpirun -n N ebb bench lm ... --json`, one thread a process; ways take turns, best
and median of the rounds are shown. `messages` and `compute` are steps that leave the rest out (--only).
With --virtual, seconds are those of a virtual clock (docs/ranks.md): never mixed with real ones. The hash
of the weights after the last step is that of one process, or this fails. `--batches` repeats it for other
batches.

The last two are of `ebb train`, whose words a second are then those of the steps. --sentences: useful words a
second of the first --steps steps of an epoch, over those of one process that pads all to the longest. The steps
are not the same (other shapes, other batches), so let there be many. --perplexity: validation every --every
steps; what all ways find must be the same to the last digit, and so must the weights in the end. Prints a table in Markdown on standard output, what it is doing on standard error.
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
MODEL = ["--hidden", 400, "--embed", 200, "--layers", 8, "--bptt", 35, "--vocab", 10000]


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default=ROOT / "build" / "ebb", type=Path, metavar="FILE", help="the command (default build/ebb)")
    parser.add_argument("--ranks", type=int, default=2, metavar="N", help="processes (default 2)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--steps", type=int, default=6, metavar="N", help="timed, of each (default 6)")
    parser.add_argument("--batches", type=int, nargs="+", default=[20], metavar="N", help="default 20")
    parser.add_argument("--virtual", action="store_true", help="seconds of a virtual clock")
    parser.add_argument("--network", metavar="RATE,LATENCY", help="of --virtual: 1G,50us (default shared memory)")
    parser.add_argument("--parts", action="store_true", help="also messages alone and compute alone")
    parser.add_argument("--sentences", metavar="FILE", help="a text, a sentence a line")
    parser.add_argument("--shapes", type=int, default=10, metavar="N", help="of --sentences (default 10)")
    parser.add_argument("--perplexity", nargs=2, metavar=("TRAIN", "VALID"), help="texts")
    parser.add_argument("--every", type=int, default=20, metavar="N", help="steps from one validation to the next (default 20)")
    parser.add_argument("model", nargs="*", help="options of ebb bench lm in place of the model's, after --")
    return parser.parse_args()


def mpirun(o, ranks, *words):
    command = ["mpirun", "-n", ranks, "--oversubscribe", "--bind-to", "none", o.ebb, *words]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{' '.join(str(word) for word in command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def bench(o, ranks, *words):
    return json.loads(mpirun(o, ranks, "bench", "lm", *(o.model or MODEL), "--threads", 1, "--steps", o.steps, "--json", *words))


def clock(o):
    return (["--virtual"] if o.virtual else []) + (["--network", o.network] if o.network else [])


def train(o, ranks, *words):
    """The lines of metrics.jsonl, and the bytes of the last weights."""
    with tempfile.TemporaryDirectory() as folder:
        mpirun(o, ranks, "train", "lm", *(o.model or MODEL), "--threads", 1, "--steps", o.steps, "--out", folder + "/run", "--quiet", *words, *clock(o))
        with open(folder + "/run/metrics.jsonl", encoding="utf8") as file:
            return [json.loads(line) for line in file], Path(folder + "/run/last.safetensors").read_bytes()


def ways(o, batch):
    """Name, processes, options; the first is what others are compared with, the second has as many parts."""
    size = ["--batch", batch]
    shards = ["--shards", o.ranks]
    yield "one process", 1, size + ["--shards", 1]
    yield f"one process, {o.ranks} shards", 1, size + shards
    for mode in ("slices", "copies", "central"):
        yield f"data parallel, {mode}", o.ranks, size + shards + ["--reduce", mode]
    yield f"{o.ranks} stages", o.ranks, size + ["--shards", 1, "--stages", o.ranks]
    yield f"{o.ranks} stages by layers alone", o.ranks, size + ["--shards", 1, "--stages", o.ranks, "--disable", "split"]


def seconds(o, result):
    return result["virtual_seconds_per_step"] if o.virtual else result["seconds_per_step"]


def measure(o, batch):
    table = list(ways(o, batch))
    found = {name: [] for name, _, _ in table}
    parts = {name: {} for name, _, _ in table}
    extra = clock(o)
    for k in range(o.rounds):
        for name, ranks, words in table:
            print(f"batch {batch}, round {k + 1} of {o.rounds}: {name}", file=sys.stderr, flush=True)
            found[name].append(bench(o, ranks, *words, *extra))
            for part in ("messages", "compute") if o.parts and ranks > 1 else ():
                spent = seconds(o, bench(o, ranks, *words, *extra, "--only", part))
                parts[name][part] = min(spent, parts[name].get(part, spent))
    return table, found, parts


def show(o, batch):
    table, found, parts = measure(o, batch)
    first, same = table[0][0], table[1][0]
    words = batch * 35
    clock = ", virtual seconds" if o.virtual else ""
    wire = f", {o.network}" if o.network else ", shared memory"
    print(f"\nBatch {batch}, {o.ranks} processes{wire}{clock}, best of {o.rounds} (median):\n")
    print("| | words/s | of one process | of the same shards | largest process, MB | sent, MB | balance | waits | bubble | messages, s | compute, s |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, ranks, _ in table:
        times = [seconds(o, r) for r in found[name]]
        best = min(times)
        base, shards = (min(seconds(o, r) for r in found[n]) for n in (first, same))
        result = found[name][times.index(best)]
        bytes_ = [r["planned_peak_bytes"] for r in result["ranks"]]
        busy = [r["busy_seconds"] for r in result["ranks"]]
        sent = sum(r["sent_bytes"] for r in result["ranks"])
        for r in result["ranks"]:
            assert r["planned_peak_bytes"] == r["measured_peak_bytes"], (name, r)
        reference = first if "stages" in name else same
        expected = found[first][0]["weights_hash"] if name == first or reference == first else found[same][0]["weights_hash"]
        assert all(r["weights_hash"] == expected for r in found[name]), f"{name}: other bits"
        part = [f"{parts[name][p]:.3f}" if p in parts[name] else "" for p in ("messages", "compute")]
        print(f"| {name} | {words / best:.0f} ({words / statistics.median(times):.0f}) | {base / best:.2f}x | {shards / best:.2f}x | "
              f"{max(bytes_) / 1e6:.0f} | {sent / 1e6:.1f} | {min(busy) / max(busy):.2f} | {result['exposed_share']:.0%} | "
              f"{result['bubble_share']:.0%} | {part[0]} | {part[1]} |")


def rate(lines):
    """Words a second of all steps."""
    logged = [line for line in lines if "words_per_second" in line]
    assert len(logged) == 1, logged
    return logged[0]["words_per_second"]


def show_sentences(o):
    text = ["--train", o.sentences, "--by-sentence", "--batch", o.batches[0], "--log-every", o.steps]
    shapes, stages = ["--bucket", "auto", "--shapes", o.shapes], ["--stages", o.ranks]
    table = [("one process, padded to the longest", 1, ["--bucket", "none"]), (f"one process, {o.shapes} shapes", 1, shapes),
             (f"{o.ranks} stages, {o.shapes} shapes", o.ranks, shapes + stages),
             (f"{o.ranks} stages by layers alone, {o.shapes} shapes", o.ranks, shapes + stages + ["--disable", "split"])]
    found = {name: [] for name, _, _ in table}
    for k in range(o.rounds):
        for name, ranks, words in table:
            print(f"sentences, round {k + 1} of {o.rounds}: {name}", file=sys.stderr, flush=True)
            found[name].append(rate(train(o, ranks, *text, *words)[0]))
    print(f"\n{o.sentences}, batch {o.batches[0]}, {o.steps} steps{', virtual seconds' if o.virtual else ''}, best of {o.rounds} (median):\n")
    print("| | useful words/s | of one process, padded |\n|---|---|---|")
    base = max(found[table[0][0]])
    for name, _, _ in table:
        print(f"| {name} | {max(found[name]):.0f} ({statistics.median(found[name]):.0f}) | {max(found[name]) / base:.2f}x |")


def show_perplexity(o):
    text = ["--train", o.perplexity[0], "--valid", o.perplexity[1], "--batch", o.batches[0], "--valid-every", o.every, "--log-every", o.every]
    shards, stages = ["--shards", o.ranks], ["--shards", 1, "--stages", o.ranks]
    table = [("one process", 1, ["--shards", 1]), (f"{o.ranks} stages", o.ranks, stages), (f"one process, {o.ranks} shards", 1, shards)]
    table += [(mode, o.ranks, shards + ["--reduce", mode]) for mode in ("slices", "copies", "central")]
    columns, first = [], {}
    for name, ranks, words in table:
        print(f"perplexity: {name}", file=sys.stderr, flush=True)
        lines, weights = train(o, ranks, *text, *words)
        seconds, column = 0.0, []
        for line in lines: # every line is of the steps since the one before
            seconds += o.every * o.batches[0] * 35 / line["words_per_second"] if line["words_per_second"] > 0 else 0
            if "valid_perplexity" in line:
                column.append((line["step"], line["valid_perplexity"], seconds))
        curve = [(step, perplexity) for step, perplexity, _ in column]
        expected = first.setdefault(words[1], (curve, weights)) # by the number of shards
        assert expected == (curve, weights), f"{name}: another curve or other weights"
        columns.append((name, column))
    wire = f", {o.network}" if o.network else ", shared memory"
    print(f"\nValidation perplexity by steps, and when it was reached: {'virtual ' if o.virtual else ''}seconds of training, {o.ranks} processes{wire}\n")
    print("| steps | perplexity | " + " | ".join(name for name, _ in columns[:2]) + f" | perplexity, {o.ranks} shards | "
          + " | ".join(name for name, _ in columns[2:]) + " |\n" + "|---" * (len(columns) + 3) + "|")
    for rows in zip(*(column for _, column in columns)):
        spent = [f"{row[2]:.4g}" for row in rows]
        print(f"| {rows[0][0]} | {rows[0][1]:.2f} | {' | '.join(spent[:2])} | {rows[2][1]:.2f} | {' | '.join(spent[2:])} |")


def main():
    o = options()
    if o.sentences:
        show_sentences(o)
    if o.perplexity:
        show_perplexity(o)
    for batch in o.batches if not o.sentences and not o.perplexity else ():
        show(o, batch)


if __name__ == "__main__":
    main()
