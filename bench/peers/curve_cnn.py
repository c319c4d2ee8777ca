"""Time and memory of a torchvision net under torch.compile's activation budget, beside `ebb bench cnn --memory`.

Usage: curve_cnn.py [--net resnet50] [--batch 16] [--size 224] [--classes 1000] [--steps 3] [--budgets 1,0.5,0]
                    [--ebb build/ebb] [--shares 1,0.5,0.25]

A budget is the share of what PyTorch would keep for the backward pass that it may keep; each runs in a process of its
own. Memory is the highest resident size above that of the loaded compiler. Of ebb the same step is run with --memory
at shares of what keeping all takes: planned bytes, to the byte. Seconds are those of the fastest step.
"""
import argparse
import json
import resource
import subprocess
import sys
import time


def run_torch(o):
    """One budget, in this process: MiB and seconds."""
    import torch
    import torch._functorch.config as partitioner
    import torchvision
    torch.set_num_threads(o.threads)
    torch.compile(lambda x: (x @ x).tanh().sum())(torch.ones(8, 8, requires_grad=True)).backward()
    loaded = int(open("/proc/self/statm").read().split()[1]) * 4096
    partitioner.activation_memory_budget = o.budget
    net = getattr(torchvision.models, o.net)(num_classes=o.classes).to(memory_format=torch.channels_last)
    forward = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(o.batch, 3, o.size, o.size).contiguous(memory_format=torch.channels_last)
    y = torch.randint(o.classes, (o.batch,))
    least = float("inf")
    for _ in range(1 + o.steps):  # the first compiles
        start = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(forward(x), y).backward()
        optimizer.step()
        least = min(least, time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"MiB": (peak - loaded) / 2**20, "seconds": least}))


TOO_SMALL = 4  # the code with which ebb refuses a budget


def run_ebb(o, *more):
    """Bytes and seconds; None where the budget is too small."""
    command = [o.ebb, "bench", "cnn", "--net", o.net, "--batch", o.batch, "--size", o.size, "--classes", o.classes, "--momentum", 0.9,
               "--steps", o.steps, "--threads", o.threads, "--profile", "--json", *more]
    run = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if run.returncode == TOO_SMALL:
        return None
    run.check_returncode()
    found = json.loads(run.stdout)
    return found["planned_peak_bytes"], found["profile"]["step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in {"net": "resnet50", "ebb": "build/ebb", "budgets": "1,0.75,0.5,0.25,0", "shares": "1,0.75,0.5,0.35,0.25"}.items():
        parser.add_argument(f"--{name}", default=usual)
    for name, usual in {"batch": 16, "size": 224, "classes": 1000, "steps": 3, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--budget", type=float, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.budget is not None:
        run_torch(o)
        return
    print("| | | MiB | s a step |\n|---|---|---|---|")
    for budget in o.budgets.split(","):
        command = [sys.executable, __file__, *sys.argv[1:], "--budget", budget]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        print(f"| torch.compile | budget {budget} | {found['MiB']:.0f} | {found['seconds']:.2f} |", flush=True)
    whole, seconds = run_ebb(o, "--disable", "chunk,encode,recompute")
    print(f"| ebb | keeping all | {whole / 2**20:.0f} | {seconds:.2f} |", flush=True)
    for share in o.shares.split(","):
        found = run_ebb(o, "--memory", int(float(share) * whole))
        print(f"| ebb | --memory at {share} | " + (f"{found[0] / 2**20:.0f} | {found[1]:.2f} |" if found else "too small | |"), flush=True)


if __name__ == "__main__":
    main()
