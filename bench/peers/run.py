#!/usr/bin/env python3
"""Times `ebb bench` side by side with PyTorch and JAX, and writes tables and charts.

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
from points import ACTIVATION_BUDGETS, CURVE_PLANS, SUITES, flags, kind_of, point_name, setting

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
    "torch-checkpoint": "PyTorch, attention computed again for its gradient",
    "torch-compile": "PyTorch, torch.compile",
    "jax": "JAX, jit",
    "jax-remat": "JAX, jit, decoder steps computed again for their gradient",
}

# Scripts of the peers and their modes, by kind of model.
SCRIPTS = {
    "torch": {"torch-eager": {"lm": ("torch_lm.py", "eager"), "nmt": ("torch_nmt.py", "eager")},
              "torch-checkpoint": {"nmt": ("torch_nmt.py", "checkpoint")},
              "torch-compile": {"lm": ("torch_lm.py", "compile"), "nmt": ("torch_nmt.py", "compile")}},
    "jax": {"jax": {"lm": ("jax_lm.py", "jit"), "nmt": ("jax_nmt.py", "plain")},
            "jax-remat": {"nmt": ("jax_nmt.py", "remat")}},
}
NMT = ["--feed", "--attention", "mlp", "--optimizer", "adam", "--clip", "1"]  # as nmt peers are written


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ebb", default=ROOT / "build" / "ebb", type=Path, metavar="FILE", help="the command (default build/ebb)")
    parser.add_argument("--python", default=os.environ.get("PEER_PYTHON") or ROOT / "build" / "peers" / "bin" / "python",
                        metavar="FILE", help="a Python with torch and jax (default: PEER_PYTHON, else what setup.sh made)")
    parser.add_argument("--out", default=ROOT / "build" / "bench-peers", type=Path, metavar="DIR",
                        help="results, tables and charts (default build/bench-peers)")
    parser.add_argument("--suite", action="append", choices=SUITES, help="only this one (repeatable; default all)")
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only this one (repeatable; default all)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of models and curve; medians are shown (default 3)")
    parser.add_argument("--sweep-rounds", type=int, default=1, metavar="N",
                        help="of the sweeps, and of torch.compile on the curve (default 1)")
    parser.add_argument("--compile-seconds", type=int, default=240, metavar="N",
                        help="torch.compile on the curve is given up after so many (default 240)")
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
    """{engine: {kind: command so far}} of the engines that are here; says loudly which are not."""
    found = {}
    version = output_of([o.ebb, "--version"])
    if version is None:
        raise SystemExit(f"run.py: {o.ebb} does not run; build it with make, or name it with --ebb")
    found["ebb"] = {"lm": [o.ebb, "bench", "lm", "--json"], "nmt": [o.ebb, "bench", "nmt", "--json", *NMT]}
    known = [name for name in UNFUSED if name in optional_passes(o.ebb)]
    if missing := [name for name in UNFUSED if name not in known]:
        print(f"NOTE: this ebb has no optional pass {', '.join(missing)}; ebb-default is without {', '.join(known)} only")
    found["ebb-default"] = {"lm": found["ebb"]["lm"] + [word for name in known for word in ("--disable", name)]}
    for module, engines in SCRIPTS.items():
        here = output_of([o.python, "-c", f"import {module}; print({module}.__version__)"], 300)
        if here is None:
            print(f"\n*** MISSING PEER: {o.python} cannot import {module}. {', '.join(engines)} will not be measured.\n"
                  "*** Run bench/peers/setup.sh, or name a Python that has it with PEER_PYTHON=\n", flush=True)
            continue
        print(f"{module} {here.strip()}")
        for name, kinds in engines.items():
            found[name] = {kind: [o.python, HERE / script, "--mode", mode] for kind, (script, mode) in kinds.items()}
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
        for old in (path, about, o.out / "curve.json"):
            old.unlink(missing_ok=True)
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


class TimedOut(Exception):
    pass


def run_process(command, threads, seconds, env):
    """(exit code, standard output, standard error) of a process on the first `threads` cores."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:threads])  # inherited: the same cores for all
    try:
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=env, start_new_session=True)
    finally:
        os.sched_setaffinity(0, allowed)
    try:
        out, errors = process.communicate(timeout=seconds)
    except BaseException as trouble:
        os.killpg(process.pid, signal.SIGKILL)  # with the compilers it may have started
        process.communicate()
        if isinstance(trouble, subprocess.TimeoutExpired):
            raise TimedOut from None
        raise
    return process.returncode, out, errors


def environment(out):
    """Where ebb keeps the times that it measures in its first run of a model, and torch.compile its code."""
    return {"EBB_TUNE": str(out / "tune"), "TORCHINDUCTOR_CACHE_DIR": str(out / "inductor"), **os.environ}


def run_once(o, command, point):
    """One process on the point's number of cores; the result with common names, or a message."""
    full = [str(part) for part in [*command, *flags(point)]]
    limited = "activation-budget" in point
    most = o.compile_seconds + 60 if limited else MOST_SECONDS  # a minute for loading and for the steps
    try:
        code, out, errors = run_process(full, point["threads"], most, environment(o.out))
    except TimedOut:
        return {"gave_up": o.compile_seconds} if limited else f"no result within {most} s: {' '.join(full)}"
    if code != 0:
        return f"exit code {code}: {' '.join(full)}\n{errors.strip()[-2000:]}"
    result = json.loads(out)
    if "vm_hwm_bytes" in result:  # ebb: the whole process, nothing taken off
        result["peak_bytes"] = result["vm_hwm_bytes"]
    if "memory" in point:
        result |= predict(o, point)
    return result


def plan(o, point, *more):
    """`ebb plan nmt --json` of a point; after a run of it, whose times it then knows."""
    sizes = {name: value for name, value in point.items() if name != "steps"}
    command = [o.ebb, "plan", "nmt", "--json", *NMT, *flags(sizes), *more]
    code, out, errors = run_process(command, point["threads"], MOST_SECONDS, environment(o.out))
    if code != 0:
        raise SystemExit(f"run.py: exit code {code}: {' '.join(map(str, command))}\n{errors.strip()[-2000:]}")
    return json.loads(out)


def predict(o, point):
    """What the plan of a budget promised."""
    made = plan(o, point)
    return {"predicted_seconds_per_step": made["seconds_per_step"], "predicted_peak_bytes": made["peak_bytes"],
            "predicted_plan_hash": made["plan_hash"]}


def spread_plans(made, count):
    """Peak bytes of `count` plans of a curve, ascending: its ends, the plan that ebb takes by itself, and
    then again and again the one farthest from all chosen ones, in bytes and in seconds."""
    places = {entry["peak_bytes"]: entry["seconds_per_step"] for entry in made["curve"]}
    wide = max(places) - min(places) or 1
    high = max(places.values()) - min(places.values()) or 1
    apart = lambda a, b: abs(a - b) / wide + abs(places[a] - places[b]) / high  # noqa: E731
    chosen = {min(places), max(places), *(size for size in places if size == made["peak_bytes"])}
    while len(chosen) < min(count, len(places)):
        chosen.add(max(places.keys() - chosen, key=lambda size: (min(apart(size, other) for other in chosen), size)))
    return sorted(chosen)


def run_first(o, point):
    """A run for what ebb measures in it, not for its figures."""
    if isinstance(trouble := run_once(o, [o.ebb, "bench", "nmt", "--json", *NMT], point), str):
        raise SystemExit(f"run.py: {trouble}")


def curve_budgets(o, point):
    """Bytes of up to CURVE_PLANS plans of ebb's curve.

    They are kept in OUT, so that a run that goes on measures the same ones.
    """
    path = o.out / "curve.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    name = point_name(point)
    if name not in kept:
        # Runs measure times of products, and those move the curve: it is taken again after a short run
        # of every plan of the first one.
        short = {**point, "steps": 2}
        run_first(o, short)
        for size in spread_plans(plan(o, point, "--curve"), CURVE_PLANS):
            run_first(o, {**short, "memory": size})
        kept[name] = spread_plans(plan(o, point, "--curve"), CURVE_PLANS)
        path.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    return kept[name]


def variants(suite, point, engine, budgets):
    """The points that an engine is measured at; several on a curve."""
    if suite == "nmt-curve" and engine == "ebb":
        return [{**point, "memory": size} for size in budgets(point)]
    if suite == "nmt-curve" and engine == "torch-compile":
        return [{**point, "activation-budget": share} for share in ACTIVATION_BUDGETS]
    return [point]


def jobs(o, engines, budgets):
    """(suite, point, round, engine) in the order of measuring: engines take turns within a round."""
    for suite, (points, names) in SUITES.items():
        if o.suite and suite not in o.suite:
            continue
        rounds = o.rounds if suite in ("models", "nmt", "nmt-curve") else o.sweep_rounds
        for point in points:
            if o.only and o.only not in point_name(point):
                continue
            for number in range(1, rounds + 1):
                for name in names:
                    slow = suite == "nmt-curve" and name == "torch-compile"
                    if name in engines and not (slow and number > o.sweep_rounds):
                        yield from ((suite, each, number, name) for each in variants(suite, point, name, budgets))


def measure_all(o):
    """Measures what is missing. Returns how many runs failed."""
    engines = commands(o)
    path, have = open_results(o)
    todo = [job for job in jobs(o, engines, lambda point: curve_budgets(o, point))
            if (job[0], json.dumps(job[1], sort_keys=True), job[3], job[2]) not in have]
    print(f"{len(todo)} runs to do, {len(have)} there already, in {path}", flush=True)
    failed = 0
    with path.open("a", encoding="utf-8") as file:
        for number, (suite, point, turn, name) in enumerate(todo, 1):
            result = run_once(o, engines[name][kind_of(point)], point)
            shown = f"[{number}/{len(todo)}] {suite}: {point_name(point)}, round {turn}, {name} {setting(point)}".rstrip()
            if isinstance(result, str):
                failed += 1
                print(f"{shown}: FAILED, {result}", flush=True)
                continue
            line = {"suite": suite, "point": point, "engine": name, "round": turn, "result": result}
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(f"{shown}: {report.in_short(result)}", flush=True)
    return failed


def main():
    # Ends as Ctrl-C does: run_process then stops the engine that is being measured.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    o = options()
    if o.list:
        for suite, point, turn, name in jobs(o, o.engine or ENGINES, lambda _: range(CURVE_PLANS)):
            budget = f" {setting(point)}" if "activation-budget" in point else f" plan {point['memory'] + 1}" if "memory" in point else ""
            print(f"{suite}: {point_name(point)}, round {turn}, {name}{budget}, {point['steps']} steps")
        return 0
    failed = 0 if o.report else measure_all(o)
    for made in report.write(o.out):
        print(f"wrote {made}")
    if failed:
        print(f"{failed} runs FAILED (see above); the same command tries them again")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
