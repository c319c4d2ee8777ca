#!/usr/bin/env python3
"""Bytes that plans of nets take: the smallest plan whose predicted time is within a share of keep-all's.

usage: bench/nets.py [--ebb build/ebb] [--batch 64] [--within 1.05,1.10,1.20] [--nets alexnet,nin,...] [--measure ROUNDS] [-- OPTIONS OF ebb plan cnn]
Prints a row a net: keep-all, then total / activations, as times less than keep-all, and the predicted time, for each share.
With --measure the plans are run too, in turns with keep-all, and the times of both are compared twice: the fastest steps, which
other work on the machine slows down, and sums of every instruction at its fastest of all rounds' steps, which it hardly does.
"""
import argparse
import json
import subprocess
import sys

NETS = "alexnet,nin,overfeat,vgg16,googlenet,resnet50,resnet152"
SIZES = {"overfeat": 231, "inception_v3": 299}


def ask(ebb, what, net, batch, more):
    command = [ebb, what, "cnn", "--net", net, "--size", str(SIZES.get(net, 224)), "--batch", str(batch), "--momentum", "0.9", "--json", *more]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr.strip() or f"{ebb} ended with {run.returncode}")
    return json.loads(run.stdout)


def smallest(found, most):
    """Total and activations of the smallest listed plan in that time, and its time."""
    return min((one for one in found["curve"] if one["seconds_per_step"] <= most), key=lambda one: one["peak_bytes"], default=None)


def measured(ebb, net, batch, rounds, budget, more):
    """Seconds of the smaller plan over keep-all's: of the fastest step, and of all instructions, each at its fastest; the most
    steps of a run that did not fit their heaps and were done twice, which has no sum of one program's instructions."""
    ways = {"plan": ["--memory", str(budget), *more], "keep": ["--disable", "chunk", "--disable", "encode", "--disable", "recompute"]}
    steps, sums, twice = {way: [] for way in ways}, {way: [] for way in ways}, 0
    for _ in range(rounds):
        for way, options in ways.items():
            found = ask(ebb, "bench", net, batch, ["--threads", "2", "--steps", "4", "--profile", *options])
            if found["planned_peak_bytes"] != found["measured_peak_bytes"]:
                sys.exit(f"{net}: planned {found['planned_peak_bytes']} bytes, measured {found['measured_peak_bytes']}")
            steps[way].append(found["profile"]["step_seconds"])
            sums[way].append(found["profile"]["least_seconds"])
            twice = max(twice, found.get("fallback_steps", 0))
    step, least = (min(one["plan"]) / min(one["keep"]) for one in (steps, sums))
    return f"{step:.3f}, " + (f"{twice} steps done twice" if twice else f"instructions at their fastest {least:.3f}")


def main():
    own, more = (sys.argv[1:] + ["--"])[:(sys.argv[1:] + ["--"]).index("--")], sys.argv[1:]
    more = more[more.index("--") + 1:] if "--" in more else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default="build/ebb")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--within", default="1.05")
    parser.add_argument("--nets", default=NETS)
    parser.add_argument("--measure", type=int, default=0, metavar="ROUNDS")
    args = parser.parse_args(own)
    shares = [float(one) for one in args.within.split(",")]
    print("| net | keep-all MiB |" + "".join(f" within {one:g} |" for one in shares) + " planned in |")
    print("|---|---|" + "---|" * (len(shares) + 1))
    for net in args.nets.split(","):
        found = ask(args.ebb, "plan", net, args.batch, ["--curve", *more])
        keep = ask(args.ebb, "plan", net, args.batch, []) if "--stash" in more else found
        cells = []
        for share in shares:
            one = smallest(found, share * keep["seconds_per_step_keep_all"])
            if one is None:
                cells.append("-")
                continue
            cells.append(f"{keep['keep_all_bytes'] / one['peak_bytes']:.2f} / {keep['keep_all_activation_bytes'] / one['activation_bytes']:.2f}"
                         f" at {one['seconds_per_step'] / keep['seconds_per_step_keep_all']:.2f}, {one['peak_bytes'] / 2**20:.0f} MiB")
            if args.measure:
                cells[-1] += "; measured " + measured(args.ebb, net, args.batch, args.measure, one["peak_bytes"], more)
        print(f"| {net} | {keep['keep_all_bytes'] / 2**20:.0f} | " + " | ".join(cells) + f" | {found['plan_seconds']:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
