#!/usr/bin/env python3
"""Which way to lay out a product wins at which sizes: a table and a chart, from `ebb tune lm --json`.

For every hidden size and batch, ebb times each form of each product of an LSTM's training step. A
form's name begins with its layout: what the lanes of the vector units run over and what is copied
together before. The layouts of one product are compared by their best forms. Every round measures
all anew; medians over the rounds are compared, since a single time may be wrong in either direction.
Each round of a size is one line in OUT/layout.jsonl; what is there is not measured again, unless
with --fresh.
"""
import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import chart

ROOT = Path(__file__).resolve().parent.parent
TIME, VOCAB, GATES = 35, 10000, 4

# The product's (m, n, k) for hidden h, batch b. Of the projection the most rows that ebb tries.
ROLES = {
    "recurrent, forward": lambda h, b: (b, GATES * h, h),
    "recurrent, backward": lambda h, b: (b, h, GATES * h),
    "inputs of all times, forward": lambda h, b: (TIME * b, GATES * h, h),
    "inputs of all times, backward": lambda h, b: (TIME * b, h, GATES * h),
    "gradient of weights": lambda h, b: (GATES * h, h, TIME * b),
    "output projection, forward": lambda h, b: (None, VOCAB, h),
}

MEANING = {
    "panels": "weights packed once a step",
    "row": "lanes over columns, nothing copied",
    "minor": "lanes over rows, nothing copied",
}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = lambda words: [int(word) for word in words.split(",")]  # noqa: E731
    parser.add_argument("--ebb", default=ROOT / "build" / "ebb", type=Path, metavar="FILE", help="the command (default build/ebb)")
    parser.add_argument("--out", default=ROOT / "build" / "bench-layout", type=Path, metavar="DIR",
                        help="results, table and chart (default build/bench-layout)")
    parser.add_argument("--hidden", type=sizes, default=[128, 256, 512, 650, 1024, 1536], metavar="N,N,...")
    parser.add_argument("--batch", type=sizes, default=[1, 4, 20, 64, 128], metavar="N,N,...")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))), metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="medians are compared (default 3)")
    parser.add_argument("--fresh", action="store_true", help="forget what OUT holds")
    parser.add_argument("--report", action="store_true", help="measure nothing: table and chart from what OUT holds")
    return parser.parse_args()


def layout_of(form):
    """'row+lanes|> 24x256/384' -> 'row+lanes': tile sizes, how members share and what is fetched ahead are not layout."""
    return form.split()[0].rstrip("|>")


def meaning_of(layout):
    base, *packed = layout.split("+")
    if not packed:
        return MEANING.get(base, base)
    over = {"row": "lanes over columns", "minor": "lanes over rows"}.get(base, base)
    return f"{over}, {' and '.join(packed)} packed by the product"


def short_of(layout):
    base, *packed = layout.split("+")
    return base[0].upper() + "".join(word[0] for word in packed)


def read_lines(path):
    """{(hidden, batch, threads, round): record}"""
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            print(f"{path}: an unfinished line is left out")
            continue
        found[record["hidden"], record["batch"], record["threads"], record["round"]] = record
    return found


def tune(o, hidden, batch):
    """What `ebb tune` prints for one size, with no times stored before."""
    with tempfile.TemporaryDirectory() as folder:
        command = [o.ebb, "tune", "lm", "--json", "--hidden", hidden, "--batch", batch, "--bptt", TIME, "--vocab", VOCAB,
                   "--threads", o.threads, "--tune", folder]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"layout.py: {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def measure(o, path):
    have, build = read_lines(path), hashlib.sha256(o.ebb.read_bytes()).hexdigest()[:16]
    if any(record["ebb"] != build for record in have.values()):
        raise SystemExit(f"layout.py: {path} holds figures of another ebb: start over with --fresh, or write elsewhere with --out")
    todo = [(turn, h, b) for turn in range(1, o.rounds + 1) for h in o.hidden for b in o.batch if (h, b, o.threads, turn) not in have]
    print(f"{len(todo)} runs to do, {len(have)} there already, in {path}", flush=True)
    with path.open("a", encoding="utf-8") as file:
        for number, (turn, hidden, batch) in enumerate(todo, 1):
            found = tune(o, hidden, batch)
            file.write(json.dumps({"hidden": hidden, "batch": batch, "threads": o.threads, "round": turn, "ebb": build, "cpu": found["cpu"],
                                   "entries": [e for e in found["entries"] if e["op"] == "matmul"]}) + "\n")
            file.flush()
            print(f"[{number}/{len(todo)}] round {turn}, hidden {hidden}, batch {batch}: {found['measured']} products in {found['seconds']:.1f} s", flush=True)


def best_of_round(record, role):
    """(rows of the product, {layout: seconds of its best form}) in one round."""
    m, n, k = ROLES[role](record["hidden"], record["batch"])
    same = [e for e in record["entries"] if (e["n"], e["k"]) == (n, k) and m in (None, e["m"]) and not (m is None and e["trans_a"])]
    most, best = max((e["m"] for e in same), default=0), {}
    for entry in same:
        for form in entry["forms"] if entry["m"] == most else ():
            layout = layout_of(form["name"])
            if form["seconds"] is not None:
                best[layout] = min(form["seconds"], best.get(layout, form["seconds"]))
    return most, best


class Compared:
    """The layouts of one product at one size, over all rounds."""

    def __init__(self, records, role):
        rounds = [best_of_round(record, role) for record in records]
        self.rows = max(rows for rows, _ in rounds)
        rounds = [best for _, best in rounds if best]
        names = set().union(*rounds)
        self.seconds = {name: statistics.median(best[name] for best in rounds if name in best) for name in names}
        self.order = sorted(names, key=self.seconds.get)
        self.agreed = bool(self.order) and all(min(best, key=best.get) == self.order[0] for best in rounds)

    def gain(self):
        """How much longer the next best layout takes; a question mark where rounds name other winners."""
        if len(self.order) < 2:
            return "alone"
        ratio = self.seconds[self.order[1]] / self.seconds[self.order[0]]
        return f"{ratio:.2f}x" + ("" if self.agreed else " ?")

    def cells(self, names):
        shown = {name: f"{1e6 * value:.1f}" for name, value in self.seconds.items()}
        if self.agreed:
            shown[self.order[0]] = f"**{shown[self.order[0]]}**"
        return [shown.get(name, "") for name in names]


def role_tables(role, sizes):
    """The table of one product and its tiles {(hidden, batch): (layout, gain, tip)}."""
    compared = {size: Compared(records, role) for size, records in sorted(sizes.items())}
    compared = {size: c for size, c in compared.items() if c.order}
    names = sorted({name for c in compared.values() for name in c.order})
    rows = [f"## {role}", "", "| hidden | batch | rows | " + " | ".join(names) + " |", "|---" * (3 + len(names)) + "|"]
    grid = {}
    for (hidden, batch), c in compared.items():
        rows.append(f"| {hidden} | {batch} | {c.rows} | " + " | ".join(c.cells(names)) + " |")
        tip = "; ".join(f"{name}: {1e6 * c.seconds[name]:.1f} us" for name in c.order)
        grid[hidden, batch] = (c.order[0], c.gain(), tip)
    return [*rows, ""] if grid else [], grid


def write(o, path):
    """The table and the chart; returns the paths."""
    sizes, cpu = {}, ""
    for record in read_lines(path).values():
        if record["threads"] == o.threads:
            sizes.setdefault((record["hidden"], record["batch"]), []).append(record)
            cpu = record["cpu"]
    if not sizes:
        raise SystemExit(f"layout.py: nothing measured in {path}")
    rounds = min(len(records) for records in sizes.values())
    about = f"LSTM, T {TIME}, vocabulary {VOCAB}, {o.threads} threads, medians of {rounds} rounds"
    rows = ["# Layouts of products", "", f"{cpu}. {about}. Microseconds of one product, the best form of each layout; bold: the fastest in "
            "every round. What the names mean: docs/benchmarks.md.", ""]
    tables = {role: role_tables(role, sizes) for role in ROLES}
    panels = [(role, grid) for role, (_, grid) in tables.items() if grid]
    seen = sorted({kind for _, grid in panels for kind, _, _ in grid.values()})
    short = [(role, {size: (short_of(kind), *rest) for size, (kind, *rest) in grid.items()}) for role, grid in panels]
    picture = chart.tiles("Which layout wins", f"{about}. Below: how much longer the next best takes; ?: rounds disagree",
                          "hidden", "batch", short, [(short_of(name), f"{name}: {meaning_of(name)}") for name in seen])
    for lines, _ in tables.values():
        rows += lines
    made = {"layout.md": "\n".join([*rows, "![which layout wins](layout.svg)", ""]), "layout.svg": picture}
    for name, content in made.items():
        (o.out / name).write_text(content, encoding="utf-8")
    return [o.out / name for name in made]


def main():
    o = options()
    if not o.report and not o.ebb.is_file():
        raise SystemExit(f"layout.py: there is no {o.ebb}; build it with make, or name it with --ebb")
    o.out.mkdir(parents=True, exist_ok=True)
    path = o.out / "layout.jsonl"
    if o.fresh:
        path.unlink(missing_ok=True)
    if not o.report:
        measure(o, path)
    for made in write(o, path):
        print(f"wrote {made}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
