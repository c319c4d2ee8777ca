"""Tables (Markdown) and charts (SVG) from the JSON lines that run.py collects."""
import json
import statistics
import sys
from pathlib import Path

from points import FLOORS, SUITES, point_name, setting

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import chart  # noqa: E402

NAMES = {"ebb": "ebb", "ebb-default": "default (unfused)", "torch-eager": "PyTorch", "torch-checkpoint": "PyTorch, checkpoint",
         "torch-compile": "torch.compile", "jax": "JAX", "jax-remat": "JAX, remat"}
STYLE = {name: number for number, name in enumerate(
    ("ebb", "ebb-default", "torch-eager", "jax", "torch-compile", "torch-checkpoint", "jax-remat"))}
PEERS = tuple(name for name in NAMES if not name.startswith("ebb"))
MIB = 2**20


def read_results(path):
    """Whole lines only: one that a killed run left unfinished is measured again."""
    if not path.exists():
        return []
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            kept.append(json.loads(line))
        except json.JSONDecodeError:
            print(f"{path}: an unfinished line is left out")
    return kept


class Measured:
    """All rounds of one engine at one point."""

    def __init__(self, results):
        speeds = [r["words_per_second"] for r in results]
        self.rounds = len(results)
        self.speed, self.most_speed = statistics.median(speeds), max(speeds)
        self.bytes = statistics.median(r["peak_bytes"] for r in results)
        self.most_bytes = max(r["peak_bytes"] for r in results)
        self.lean = statistics.median(lean_bytes(r) for r in results)
        self.seconds = statistics.median(r["seconds_per_step"] for r in results)
        self.last = results[-1]


def lean_bytes(result):
    """Without what a peer loads late and without what its compiler left behind; all of ebb."""
    return result.get("lean_peak_bytes", result["peak_bytes"] - result.get("late_library_bytes", 0))


def in_short(result):
    """One result in a line."""
    if "gave_up" in result:
        return f"gave up after {result['gave_up']} s"
    return f"{result['words_per_second']:.0f} words/s, {result['peak_bytes'] / MIB:.0f} MiB"


def gather(results):
    """{(suite, point name): {engine: Measured}}"""
    found = {}
    for line in results:
        if line["suite"] == "nmt-curve":
            continue
        place = found.setdefault((line["suite"], point_name(line["point"])), {})
        place.setdefault(line["engine"], []).append(line["result"])
    return {key: {engine: Measured(rounds) for engine, rounds in engines.items()} for key, engines in found.items()}


def verdict(ratio, floor, at_least):
    if floor is None:
        return "no floor"
    good = ratio >= floor if at_least else ratio <= floor
    return f"{'PASS' if good else 'short'} ({'at least' if at_least else 'at most'} {floor:g})"


def summary_line(name, engines, floor, most):
    """One row of the table of models; None where there is nothing to compare."""
    ebb, peers = engines.get("ebb"), {name: engines[name] for name in PEERS if name in engines}
    if not ebb or not peers:
        return None
    fastest = max(peers, key=lambda name: peers[name].speed)
    smallest = min(peers, key=lambda name: peers[name].bytes)
    speed, share = ebb.speed / peers[fastest].speed, ebb.bytes / peers[smallest].bytes
    return (f"| {name} | {ebb.speed:.0f} | {peers[fastest].speed:.0f} ({NAMES[fastest]}) | {speed:.3f} | {verdict(speed, floor, True)} "
            f"| {ebb.bytes / MIB:.0f} | {peers[smallest].bytes / MIB:.0f} ({NAMES[smallest]}) | {share:.3f} | {verdict(share, most, False)} |")


def engine_rows(engines):
    """The table of one model: one row an engine."""
    rows = ["| engine | words/s, median | words/s, most | ebb / it | MiB, median | MiB, most | ebb / it | without late libraries, MiB | rounds |",
            "|---|---|---|---|---|---|---|---|---|"]
    ebb = engines.get("ebb")
    for name in NAMES:
        if name not in engines:
            continue
        m = engines[name]
        compared = (f"{ebb.speed / m.speed:.2f}", f"{ebb.bytes / m.bytes:.2f}") if ebb and name in PEERS else ("", "")
        rows.append(f"| {NAMES[name]} | {m.speed:.0f} | {m.most_speed:.0f} | {compared[0]} | {m.bytes / MIB:.0f} | {m.most_bytes / MIB:.0f} "
                    f"| {compared[1]} | {m.lean / MIB:.0f} | {m.rounds} |")
    return rows


def model_tables(suite, title, found):
    summary = [f"## {title}", "",
               "| model | ebb, words/s | fastest peer | ratio | floor | ebb, MiB | smallest peer | ratio | floor |",
               "|---|---|---|---|---|---|---|---|---|"]
    details = []
    for model, floor, most in FLOORS[suite]:
        name = point_name(model)
        engines = found.get((suite, name))
        if not engines:
            continue
        if line := summary_line(name, engines, floor, most):
            summary.append(line)
        details += ["", f"### {name}", "", *engine_rows(engines)]
    return [*summary, *details, ""] if details else []


def sweep_table(suite, found):
    """Words/s and MiB of every engine, one row a size."""
    points, engines = SUITES[suite]
    rows = []
    for point in points:
        here = found.get((suite, point_name(point)))
        if here:
            cells = [f"{here[e].speed:.0f}" if e in here else "" for e in engines]
            cells += [f"{here[e].bytes / MIB:.0f}" if e in here else "" for e in engines]
            rows.append(f"| {point[suite]} | " + " | ".join(cells) + " |")
    if not rows:
        return []
    head = [f"{NAMES[e]}, words/s" for e in engines] + [f"{NAMES[e]}, MiB" for e in engines]
    return [f"## Over {suite}", "", f"{sweep_name(suite)}.", "",
            f"| {suite} | " + " | ".join(head) + " |", "|---" * (1 + len(head)) + "|", *rows, "",
            f"![words/s over {suite}]({suite}-speed.svg)", f"![bytes over {suite}]({suite}-bytes.svg)", ""]


def sweep_name(suite):
    """The sizes that stay the same in a sweep."""
    p = SUITES[suite][0][0]
    sizes = {"layers": f"{p['layers']} layers", "hidden": f"hidden {p['hidden']}", "batch": f"batch {p['batch']}"}
    kept = ", ".join(words for name, words in sizes.items() if name != suite)
    return f"{p['cell'].upper()}, {kept}, T {p['bptt']}, vocabulary {p['vocab']}, {p['threads']} threads, fp32"


def sweep_charts(suite, found):
    """{file name: svg} of one sweep."""
    points, engines = SUITES[suite]
    made = {}
    for what, title, unit, extra in (
            ("speed", "Training speed", "words per second", {}),
            ("bytes", "Peak memory", "peak memory", {"y_base": 2, "y_short": chart.short_bytes})):
        series = []
        for engine in engines:
            line = {}
            for point in points:
                m = found.get((suite, point_name(point)), {}).get(engine)
                if m:
                    line[point[suite]] = m.speed if what == "speed" else m.bytes
            if line:
                series.append((STYLE[engine], NAMES[engine], line))
        if series:
            made[f"{suite}-{what}.svg"] = chart.lines(f"{title} over {suite}", sweep_name(suite), suite, unit, series, **extra)
    return made


class Curve:
    """The lines of a curve: ebb by bytes allowed, torch.compile by share, the others once each.

    Keys are (engine, budget, its words), in the order of the table.
    """

    def __init__(self, results):
        lines = [line for line in results if line["suite"] == "nmt-curve"]
        self.name = point_name(lines[0]["point"]) if lines else None
        rounds = {}
        for line in lines:
            budget = line["point"].get("memory", line["point"].get("activation-budget", 0))
            rounds.setdefault((line["engine"], budget, setting(line["point"])), []).append(line["result"])
        order = list(NAMES)
        self.keys = sorted(rounds, key=lambda key: (order.index(key[0]), key[1]))
        done = {key: [r for r in rounds[key] if "gave_up" not in r] for key in self.keys}
        self.gave_up = {key: rounds[key][0]["gave_up"] for key in self.keys if not done[key]}
        self.measured = {key: Measured(done[key]) for key in self.keys if done[key]}

    def of(self, engine):
        """[(budget, setting, Measured)], budgets ascending."""
        return [(key[1], key[2], m) for key, m in self.measured.items() if key[0] == engine]


def prediction_rows(curve):
    """ebb's own forecasts beside what was measured, one row a budget."""
    rows = ["| budget, MiB | planned, MiB | measured, MiB | whole process, MiB | predicted, s | measured, s | predicted / measured | rounds |",
            "|---|---|---|---|---|---|---|---|"]
    inside = 0
    for budget, _, m in curve.of("ebb"):
        r = m.last
        ratio = r["predicted_seconds_per_step"] / m.seconds
        inside += 0.8 <= ratio <= 1.2
        rows.append(f"| {budget / MIB:.2f} | {r['predicted_peak_bytes'] / MIB:.2f} | {r['measured_peak_bytes'] / MIB:.2f} "
                    f"| {m.bytes / MIB:.1f} | {r['predicted_seconds_per_step']:.4f} | {m.seconds:.4f} | {ratio:.2f} | {m.rounds} |")
    total = len(rows) - 2
    return [*rows, "", f"Predicted within 20% of measured: {inside} of {total}."] if total else []


def curve_tables(curve):
    if not curve.keys:
        return []
    rows = ["| engine | setting | s/step | words/s | MiB | without late libraries, MiB | first step, s | rounds |", "|---|---|---|---|---|---|---|---|"]
    for key in curve.keys:
        start = f"| {NAMES[key[0]]} | {key[2]} | "
        if key in curve.gave_up:
            rows.append(start + f"gave up after {curve.gave_up[key]} s | | | | | |")
            continue
        m = curve.measured[key]
        first = f"{m.last['first_step_seconds']:.1f}" if "first_step_seconds" in m.last else ""
        rows.append(start + f"{m.seconds:.4f} | {m.speed:.0f} | {m.bytes / MIB:.0f} | {m.lean / MIB:.0f} | {first} | {m.rounds} |")
    predicted = prediction_rows(curve)
    return ["## Time against memory", "", f"{curve.name}.", "", *rows, "", "![time against memory](nmt-curve.svg)", "",
            *(["### What ebb predicted", "", *predicted, ""] if predicted else [])]


def curve_chart(curve):
    """Seconds over bytes: a line for an engine with a budget, a marker for one without."""
    series = []
    for engine in sorted(STYLE, key=STYLE.get):
        points = [(m.lean, m.seconds, f"{NAMES[engine]} {name}".rstrip()) for _, name, m in curve.of(engine)]
        if points:
            series.append((STYLE[engine], NAMES[engine], points))
        if engine == "ebb" and points:
            series.append((1, "ebb, predicted", [(m.lean, m.last["predicted_seconds_per_step"], f"ebb, predicted {name}")
                                                 for _, name, m in curve.of(engine)]))
    if not series:
        return {}
    return {"nmt-curve.svg": chart.tradeoff("Time against memory", f"{curve.name}, fp32; peers without their libraries, "
                                            "ebb with everything",
                                            "peak memory", "seconds per step", series)}


def write(out):
    """Writes OUT/tables.md and the charts; returns the paths."""
    results = read_results(out / "results.jsonl")
    found, curve = gather(results), Curve(results)
    files = curve_chart(curve)
    about = out / "machine.json"
    machine = json.loads(about.read_text(encoding="utf-8")) if about.exists() else {}
    tables = ["# ebb beside PyTorch and JAX", "",
              f"{machine.get('cpu', '')}, {machine.get('cores', '')} cores; {machine.get('version', '').splitlines()[0] if machine.get('version') else ''}. "
              "What the columns mean: docs/benchmarks.md.", "", *model_tables("models", "Models", found), *model_tables("nmt", "Translation", found),
              *curve_tables(curve)]
    for suite in SUITES:
        if suite not in FLOORS and suite != "nmt-curve":
            tables += sweep_table(suite, found)
            files |= sweep_charts(suite, found)
    files["tables.md"] = "\n".join(tables)
    for name, content in files.items():
        (out / name).write_text(content, encoding="utf-8")
    return [out / name for name in files]
