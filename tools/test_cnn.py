#!/usr/bin/env python3
"""The longer checks of nets, which `make test` has no time for: the same bits and the planned bytes under every budget,
whatever is disabled, however a batch is cut; and every named net against PyTorch, where that is there.

Usage: tools/test_cnn.py EBB [--nets lenet,googlenet:64] [--batches 7,40,32/4] [--budgets 12] [--steps 3] [--no-peers]
       (PEER_PYTHON may name an interpreter with torch and torchvision)

A net is trained for two steps and --steps more by `ebb bench`: its weights' hash must be that of the plan that keeps
everything. A batch of 32/4 is one of 32 images in 4 shards. The last line is `N passed, N failed`; the exit code is 1 if anything failed."""
import argparse
import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NETS = ["lenet", "googlenet:64", "alexnet:64", "resnet20_cifar"]
PASSES = ["chunk", "encode", "recompute"]
WHOLE = 1 << 40  # bytes that hold any plan


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def add(self, fine, *what):
        self.passed += fine
        self.failed += not fine
        if not fine:
            print("FAILED", *what, flush=True)


def bench(options, model, *args):
    """What a benchmark says; None with what went wrong if it fails."""
    done = subprocess.run([options.ebb, "bench", "cnn", *model, "--steps", str(options.steps), "--json", *map(str, args)],
                          capture_output=True, text=True, check=False, env={**os.environ, "EBB_TUNE": "off"})
    return (json.loads(done.stdout), "") if done.returncode == 0 else (None, f"exit {done.returncode}: {done.stderr.strip()}")


def least_bytes(options, model, threads):
    """That a benchmark can do with, as it says itself."""
    _, said = bench(options, model, "--memory", 1, "--threads", threads)
    return int(re.search(r"the least that works is (\d+) bytes", said).group(1))


def has_option(options, name):
    return f"--{name} " in subprocess.run([options.ebb, "help", "bench", "cnn"], capture_output=True, text=True, check=False).stdout


def ways(options, model):
    """Arguments of every benchmark that must end with the same bits."""
    whole, _ = bench(options, model, "--disable", ",".join(PASSES), "--memory", WHOLE)
    for n in range(1, len(PASSES) + 1):
        for passes in itertools.combinations(PASSES, n):
            yield ["--disable", ",".join(passes), "--threads", 1 + n % 2]
    for chunk in ["none", "segment", "net"]:
        yield ["--chunk", chunk, "--threads", 2]
    yield ["--lanes", 1, "--threads", 2]
    if has_option(options, "density"):
        for density in [0.2, 0.9]:
            yield ["--density", density, "--threads", 2]
    for threads in [1, 2]:
        least = least_bytes(options, model, threads)
        most = max(whole["planned_peak_bytes"], least) if whole else least
        for i in range(threads - 1, options.budgets, 2):  # the two take turns
            yield ["--memory", least + (most - least) * i // max(1, options.budgets - 1), "--threads", threads]


def check_bits(options, checks, net, batch):
    name, _, size = net.partition(":")
    images, _, shards = batch.partition("/")
    model = ["--net", name, "--batch", images, *(["--size", size] if size else []), "--momentum", "0.9"]
    model += ["--shards", shards] if shards else []
    plain, said = bench(options, model, "--disable", ",".join(PASSES), "--threads", 1, "--memory", WHOLE)
    checks.add(plain is not None, *model, said)
    if plain is None:
        return
    before = checks.passed
    for args in ways(options, model):
        found, said = bench(options, model, *args)
        checks.add(found is not None and found["weights_hash"] == plain["weights_hash"], "bits:", *model, *args, said)
        checks.add(found is not None and found["planned_peak_bytes"] == found["measured_peak_bytes"], "bytes:", *model, *args)
    print(f"{net}, batch {batch}: {checks.passed - before} checks passed", flush=True)


def check_peers(options, checks):
    python = sys.executable if importlib.util.find_spec("torchvision") else os.environ.get("PEER_PYTHON")
    if python is None:
        print("SKIPPED nets against PyTorch: no torchvision; set PEER_PYTHON to an interpreter with torch and torchvision")
        return
    build = Path(options.ebb).resolve().parent
    with subprocess.Popen([python, ROOT / "tools/golden/compare_nets.py", "--build", build], stdout=subprocess.PIPE, text=True) as run:
        for line in run.stdout:
            print(line, end="", flush=True)
            checks.add(line.rstrip().endswith(": agrees"), line.rstrip())
    checks.add(run.returncode == 0, "compare_nets.py: exit", run.returncode)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("ebb")
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--batches", default="7,12,16,40,32/4")
    parser.add_argument("--budgets", type=int, default=12)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    checks = Checks()
    for net in options.nets.split(","):
        for batch in options.batches.split(","):
            check_bits(options, checks, net, batch)
    if not options.no_peers:
        check_peers(options, checks)
    print(f"{checks.passed} passed, {checks.failed} failed")
    sys.exit(checks.failed > 0)


if __name__ == "__main__":
    main()
