#!/usr/bin/env python3
"""Times `ebb bench lm` side by side with PyTorch and JAX, and writes tables and charts.

Every measurement is one process. Engines take turns: round 1 of every engine, then round 2, ...
Each measurement is one line in OUT/results.jsonl; what is already there is not measured again, so
an interrupted run goes on where it stopped. --fresh starts over.
"""
import argparse
import hashlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import report
from points import SUITES, flags, point_name

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MOST_SECONDS = 900

# The passes without which ebb computes a cell as the papers write it: gate by gate, step by step,
# weights as they are stored. Those that this ebb does not know are left out.
UNFUSED = ("fuse", "batch_time", "layout")

ENGINES = {
    "ebb": "ebb, as it comes",
    "ebb-default": "ebb without " + ", ".join(UNFUSED),
    "torch-eager": "PyTorch",
    "torch-compile": "PyTorch, torch.compile",
    "jax": "JAX, jit",
}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default=ROOT / "build" / "ebb", type=Path, metavar="FILE", help="the command (default build/ebb)")
    parser.add_argument("--python", default=os.environ.get("PEER_PYTHON") or ROOT / "build" / "peers" / "bin" / "python",
                        metavar="FILE", help="a Python with torch and jax (default: PEER_PYTHON, else what setup.sh made)")
    parser.add_argument("--out", default=ROOT / "build" / "bench-peers", type=Path, metavar="DIR",
                        help="results, tables and charts (default build/bench-peers)")
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this one (repeatable; default all)")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only this one (repeatable; default all)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of the models; medians are shown (default 3)")
    parser.add_argument("--sweep-rounds", type=int, default=1, metavar="N", help="of the sweeps (default 1)")
    parser.add_argument("--only", metavar="TEXT", help="only points whose name contains TEXT")
    parser.add_argument("--fresh", action="store_true", help="forget what OUT holds")
    parser.add_argument("--report", action="store_true", help="measure nothing: tables and charts from what OUT holds")
    parser.add_argument("--list", action="store_true", help="show what would be measured")
    return parser.parse_args()


def output_of(command, seconds=60):
    """Standard output, or None where the command is missing or fails."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=seconds, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def optional_passes(ebb):
    """What --disable takes, from the command's own help."""
    text = output_of([ebb, "bench", "lm", "--help"]) or ""
    found = re.search(r"--disable PASS.*?one of ([\w,\s]+?)\n\s+--", text, re.S)
    return [name.strip() for name in found.group(1).split(",")] if found else []


def commands(o):
    """{engine: command so far} of the engines that are here; says loudly which are not."""
    found = {}
    version = output_of([o.ebb, "--version"])
    if version is None:
        raise SystemExit(f"run.py: {o.ebb} does not run; build it with make, or name it with --ebb")
    found["ebb"] = [o.ebb, "bench", "lm", "--json"]
    known = [name for name in UNFUSED if name in optional_passes(o.ebb)]
    if missing := [name for name in UNFUSED if name not in known]:
        print(f"NOTE: this ebb has no optional pass {', '.join(missing)}; ebb-default is without {', '.join(known)} only")
    found["ebb-default"] = found["ebb"] + [word for name in known for word in ("--disable", name)]
    for module, scripts in (("torch", {"torch-eager": ["torch_lm.py", "--mode", "eager"],
                                       "torch-compile": ["torch_lm.py", "--mode", "compile"]}),
                            ("jax", {"jax": ["jax_lm.py"]})):
        here = output_of([o.python, "-c", f"import {module}; print({module}.__version__)"], 300)
        if here is None:
            print(f"\n*** MISSING PEER: {o.python} cannot import {module}. {', '.join(scripts)} will not be measured.\n"
                  "*** Run bench/peers/setup.sh, or name a Python that has it with PEER_PYTHON=\n", flush=True)
            continue
        print(f"{module} {here.strip()}")
        for name, script in scripts.items():
            found[name] = [o.python, HERE / script[0], *script[1:]]
    return {name: command for name, command in found.items() if not o.engine or name in o.engine}


def identity(o):
    """Figures of another machine or another ebb are not to be mixed with these."""
    return {"cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)),
            "ebb": hashlib.sha256(o.ebb.read_bytes()).hexdigest()[:16],
            "version": (output_of([o.ebb, "--version"]) or "").strip()}


def open_results(o):
    """The results file and the keys it holds."""
    o.out.mkdir(parents=True, exist_ok=True)
    path, about = o.out / "results.jsonl", o.out / "machine.json"
    if o.fresh:
        path.unlink(missing_ok=True)
        about.unlink(missing_ok=True)
    now = identity(o)
    if about.exists():
        then = json.loads(about.read_text(encoding="utf-8"))
        if different := [name for name in now if then.get(name) != now[name]]:
            raise SystemExit(f"run.py: {o.out} holds figures of another {' and '.join(different)}: "
                             "start over with --fresh, or write elsewhere with --out")
    about.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    return path, {key_of(line) for line in report.read_results(path)}


def key_of(line):
    return (line["suite"], json.dumps(line["point"], sort_keys=True), line["engine"], line["round"])


def run_once(command, point, tune):
    """One process on the point's number of cores; the result with common names, or a message.

    tune: the folder where ebb keeps the times that it measures in its first run of a model.
    """
    full = [str(part) for part in [*command, *flags(point)]]
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:point["threads"]])  # inherited: the same cores for all
    try:
        done = subprocess.run(full, capture_output=True, text=True, timeout=MOST_SECONDS, check=False,
                              env={"EBB_TUNE": str(tune), **os.environ})
    except subprocess.TimeoutExpired:
        return f"no result within {MOST_SECONDS} s: {' '.join(full)}"
    finally:
        os.sched_setaffinity(0, allowed)
    if done.returncode != 0:
        return f"exit code {done.returncode}: {' '.join(full)}\n{done.stderr.strip()[-2000:]}"
    result = json.loads(done.stdout)
    if "vm_hwm_bytes" in result:  # ebb: the whole process, nothing taken off
        result["peak_bytes"] = result["vm_hwm_bytes"]
    return result


def jobs(o, engines):
    """(suite, point, round, engine) in the order of measuring: engines take turns within a round."""
    for suite, (points, names) in SUITES.items():
        if o.suite and suite not in o.suite:
            continue
        rounds = o.rounds if suite == "models" else o.sweep_rounds
        for point in points:
            if o.only and o.only not in point_name(point):
                continue
            for number in range(1, rounds + 1):
                for name in names:
                    if name in engines:
                        yield suite, point, number, name


def measure_all(o):
    """Measures what is missing. Returns how many runs failed."""
    engines = commands(o)
    path, have = open_results(o)
    todo = [job for job in jobs(o, engines)
            if (job[0], json.dumps(job[1], sort_keys=True), job[3], job[2]) not in have]
    print(f"{len(todo)} runs to do, {len(have)} there already, in {path}", flush=True)
    failed = 0
    with path.open("a", encoding="utf-8") as file:
        for number, (suite, point, turn, name) in enumerate(todo, 1):
            result = run_once(engines[name], point, o.out / "tune")
            shown = f"[{number}/{len(todo)}] {suite}: {point_name(point)}, round {turn}, {name}"
            if isinstance(result, str):
                failed += 1
                print(f"{shown}: FAILED, {result}", flush=True)
                continue
            line = {"suite": suite, "point": point, "engine": name, "round": turn, "result": result}
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{shown}: {result['words_per_second']:.0f} words/s, {result['peak_bytes'] / 2**20:.0f} MiB", flush=True)
    return failed


def main():
    # Ends as Ctrl-C does: subprocess.run then stops the engine that is being measured.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    o = options()
    if o.list:
        for suite, point, turn, name in jobs(o, o.engine or ENGINES):
            print(f"{suite}: {point_name(point)}, round {turn}, {name}, {point['steps']} steps")
        return 0
    failed = 0 if o.report else measure_all(o)
    for made in report.write(o.out):
        print(f"wrote {made}")
    if failed:
        print(f"{failed} runs FAILED (see above); the same command tries them again")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
