#!/usr/bin/env python3
"""Bytes that plans of nets take: the smallest plan whose predicted time is within a share of keep-all's.

usage: bench/nets.py [--ebb build/ebb] [--batch 64] [--within 1.05,1.10,1.20] [--nets alexnet,nin,...] [-- OPTIONS OF ebb plan cnn]
Prints a row a net: keep-all, then total / activations, as times less than keep-all, and the predicted time, for each share.
"""
import argparse
import json
import subprocess
import sys

NETS = "alexnet,nin,overfeat,vgg16,googlenet,resnet50,resnet152"
SIZES = {"overfeat": 231, "inception_v3": 299}


def plan(ebb, net, batch, more):
    command = [ebb, "plan", "cnn", "--net", net, "--size", str(SIZES.get(net, 224)), "--batch", str(batch), "--momentum", "0.9", "--curve", "--json", *more]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr.strip() or f"{ebb} ended with {run.returncode}")
    return json.loads(run.stdout)


def smallest(found, within):
    """Total and activations of the smallest listed plan in that time, and its time."""
    most = within * found["seconds_per_step_keep_all"]
    return min((one for one in found["curve"] if one["seconds_per_step"] <= most), key=lambda one: one["peak_bytes"], default=None)


def main():
    own, more = (sys.argv[1:] + ["--"])[:(sys.argv[1:] + ["--"]).index("--")], sys.argv[1:]
    more = more[more.index("--") + 1:] if "--" in more else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default="build/ebb")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--within", default="1.05")
    parser.add_argument("--nets", default=NETS)
    args = parser.parse_args(own)
    shares = [float(one) for one in args.within.split(",")]
    print("| net | keep-all MiB |" + "".join(f" within {one:g} |" for one in shares) + " planned in |")
    print("|---|---|" + "---|" * (len(shares) + 1))
    for net in args.nets.split(","):
        found = plan(args.ebb, net, args.batch, more)
        cells = []
        for share in shares:
            one = smallest(found, share)
            cells.append("-" if one is None else
                         f"{found['keep_all_bytes'] / one['peak_bytes']:.2f} / {found['keep_all_activation_bytes'] / one['activation_bytes']:.2f}"
                         f" at {one['seconds_per_step'] / found['seconds_per_step_keep_all']:.2f}, {one['peak_bytes'] / 2**20:.0f} MiB")
        print(f"| {net} | {found['keep_all_bytes'] / 2**20:.0f} | " + " | ".join(cells) + f" | {found['plan_seconds']:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
