#!/usr/bin/env python3
"""Two hosts with 1 Gbit/s between them, as network namespaces of one machine: stages and data parallel beside the forecast.

  bench/hosts.py                 the model of 8 layers of 400, batch 20, 35 steps, vocabulary 10,000
  bench/hosts.py --rate 100mbit --network 100M,50us

Every measurement is `ebb bench lm ... --json` under an mpirun over both hosts, one process of one thread on each, messages by TCP;
ways take turns, best of the rounds. Beside it stands what `ebb plan lm --ranks 2 --network` says of the same (docs/ranks.md). The hash
of the weights is that of one process, or this fails. Needs root and iproute2; without them it says so and ends with code 77. Prints a
table in Markdown on standard output.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from two_hosts import TwoHosts, missing  # noqa: E402

MODEL = ["--hidden", 400, "--embed", 200, "--layers", 8, "--bptt", 35, "--vocab", 10000, "--batch", 20]
SKIPPED = 77


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default=ROOT / "build" / "ebb", type=Path, metavar="FILE", help="the command (default build/ebb)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="default 3")
    parser.add_argument("--steps", type=int, default=6, metavar="N", help="timed, of each (default 6)")
    parser.add_argument("--rate", default="1gbit", help="of the link, as tc writes it (default 1gbit)")
    parser.add_argument("--network", default="1G,50us", help="the same for the forecast (default 1G,50us)")
    parser.add_argument("model", nargs="*", help="options of ebb bench lm in place of the model's, after --")
    return parser.parse_args()


def run(command):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(str(word) for word in command)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def ways():
    """Name, options; parts of the batch that one process has for the same bits."""
    yield "2 stages", ["--shards", 1, "--stages", 2], 1
    for mode in ("slices", "copies", "central"):
        yield f"data parallel, {mode}", ["--shards", 2, "--reduce", mode], 2


def main():
    o = options()
    why = missing()
    if why is not None:
        print(f"SKIP: {why}", file=sys.stderr)
        return SKIPPED
    model = [*(o.model or MODEL), "--threads", 1]
    bench = [o.ebb, "bench", "lm", *model, "--steps", o.steps, "--json"]
    forecast = {name: run([o.ebb, "plan", "lm", *model, "--ranks", 2, "--network", o.network, "--json", *words]) for name, words, _ in ways()}
    found = {name: [] for name, _, _ in ways()}
    alone = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as folder, TwoHosts(folder, o.rate) as hosts:
        for k in range(o.rounds):
            print(f"round {k + 1} of {o.rounds}", file=sys.stderr, flush=True)
            for shards, results in alone.items():
                results.append(run([*bench, "--shards", shards]))
            for name, words, shards in ways():
                result = run(hosts.command(1, *bench, *words))
                assert result["weights_hash"] == alone[shards][0]["weights_hash"], f"{name}: other bits"
                found[name].append(result)
    best = lambda results: min(r["seconds_per_step"] for r in results)
    print(f"Two hosts, {o.rate}, best of {o.rounds}; one process: {best(alone[1]):.3f} s, with 2 shards {best(alone[2]):.3f} s.\n")
    print("| | seconds of a step | of one process | forecast | of it, times | MB that a process sends |")
    print("|---|---|---|---|---|---|")
    for name, _, _ in ways():
        f, seconds = forecast[name], best(found[name])
        sent = max(r["sent_bytes"] for r in found[name][0]["ranks"])
        print(f"| {name} | {seconds:.3f} | {best(alone[1]) / seconds:.2f}x | {f['seconds_per_step']:.3f} ({f['speedup']:.2f}x) | "
              f"{seconds / f['seconds_per_step']:.2f} | {sent / 1e6:.1f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
