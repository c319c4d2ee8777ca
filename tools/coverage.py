#!/usr/bin/env python3
"""Which lines of src/ a test run reached: a table by folder, then the files below their goal, worst
first, with the lines that were never run. Parsers, which see what others wrote, are to be covered
to 95%, everything else to 90%, folder by folder.

Usage: tools/coverage.py BUILD    (a folder built with -DEBB_COVERAGE=ON, after its tests have run)
"""
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOAL, PARSER_GOAL = 90, 95
SHOWN = 12  # runs of lines that are named for a file


def parsers():
    """The files that tests/fuzz/targets.def names."""
    found, folder = set(), ""
    for line in (ROOT / "tests/fuzz/targets.def").read_text().splitlines():
        for name in re.findall(r"([\w/]+\.c)", line.split("/*", 1)[1] if line.startswith("X(") else ""):
            folder = name.rsplit("/", 1)[0] if "/" in name else folder
            found.add(f"src/{name if '/' in name else folder + '/' + name}")
    return found


def lines_of(build):
    """For each file of src/ its lines and how often they were run."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run(["gcovr", "--root", str(ROOT), "--object-directory", str(build), "--filter", f"{ROOT}/src/", "--json", out.name,
                        "--gcov-ignore-parse-errors", str(build)], check=True, stdout=subprocess.DEVNULL)
        data = json.load(open(out.name, encoding="utf8"))
    return {file["file"]: {line["line_number"]: line["count"] for line in file["lines"] if not line.get("gcovr/noncode")}
            for file in data["files"]}


def share(counts):
    return 100 * sum(count > 0 for count in counts) / len(counts) if counts else 100.0


def missing(lines):
    """Runs of lines that were never run: "12-15 20"."""
    runs, last = [], None
    for number in sorted(lines):
        if lines[number] > 0:
            last = None
        elif last is None:
            runs.append([number, number])
            last = runs[-1]
        else:
            last[1] = number
    text = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    return " ".join(text[:SHOWN]) + (f" and {len(text) - SHOWN} more" if len(text) > SHOWN else "")


def main():
    build = Path(sys.argv[1]).resolve()
    files, careful = lines_of(build), parsers()
    unknown = sorted(careful - set(files))
    groups = {"parsers": [name for name in files if name in careful]}
    for name in sorted(files):
        if name not in careful:
            groups.setdefault(str(Path(name).parent), []).append(name)
    below = [f"no such file was built: {name}" for name in unknown]
    print(f"{'':24} {'lines':>7} {'covered':>8} {'goal':>5}")
    for group, names in groups.items():
        counts = [count for name in names for count in files[name].values()]
        goal = PARSER_GOAL if group == "parsers" else GOAL
        print(f"{group:24} {len(counts):7} {share(counts):7.1f}% {goal:4}%{'' if share(counts) >= goal else '  below'}")
        if share(counts) < goal:
            below.append(group)
    everything = [count for lines in files.values() for count in lines.values()]
    print(f"{'all':24} {len(everything):7} {share(everything):7.1f}%")
    short = [(share(list(lines.values())), name) for name, lines in files.items()
             if share(list(lines.values())) < (PARSER_GOAL if name in careful else GOAL)]
    for percent, name in sorted(short):
        print(f"  {percent:5.1f}%  {name}: {missing(files[name])}")
    print("below the goal: " + ", ".join(below) if below else "all goals are met")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
