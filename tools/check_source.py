#!/usr/bin/env python3
"""Holds the rules that no compiler knows: who may include whom, who may allocate, print or exit,
who may name an op, how long a file may be, which names are used. Prints every violation; exits 1 if there is any.

Usage: tools/check_source.py [ROOT]
"""
import re
import sys
from pathlib import Path

# Every folder of src, and the folders right below it, as docs/architecture.md draws them. A folder
# may include those, and what is below them.
BELOW = {
    "base": [],
    "comm": ["base"],
    "ir": ["base"],
    "op": ["ir"],
    "device": ["op"],
    "cost": ["device"],
    "grad": ["op"],
    "pass": ["grad", "cost"],
    "plan": ["pass"],
    "run": ["plan", "store", "comm"],
    "data": ["base"],
    "model": ["op"],
    "score": ["data"],
    "store": ["base"],
    "decode": ["data", "model", "run"],
    "train": ["score", "decode"],
    "kind": ["train"],
    "api": ["kind", "page"],
    "page": ["decode"],
    "cli": ["kind", "page"],
}


def all_below(layer):
    return {below for step in BELOW[layer] for below in {step} | all_below(step)}


LOWER = {layer: all_below(layer) for layer in BELOW}
PATTERN_PASSES = {"simplify", "split_classes", "classes", "sparse", "slices", "contract", "layout", "encode_norm", "encode_narrow", "encode_pool", "reduce"}
PLUGIN_MAY_INCLUDE = "comm/backend.h"
MPI_IS_TOLD = ("plugin/mpi/comm_mpi.c", "setenv")  # its settings, before it starts: there is no other way in
MOST_LINES = 700

ALLOCATE = re.compile(r"\b(malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|strdup|strndup|asprintf|getline)\s*\(")
PRINT = re.compile(r"\b(printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|perror|exit|_exit|quick_exit|abort|getenv|secure_getenv|setenv)\s*\(")
OP_CODE = re.compile(r"\bOP_[A-Z][A-Z0-9_]*\b")
OP_ASKED = re.compile(r"(?:[!=]=|\bcase)\s*OP_[A-Z][A-Z0-9_]*\b|\bOP_[A-Z][A-Z0-9_]*\s*[!=]=")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
NAME = re.compile(r"\b(ebb__[a-z0-9_]+)(\(?)")
KIND_NAMED = re.compile(r"\bebb__kind_(?!at\b|count\b|find\b|join_hashes\b|planned\b|positions\b)[a-z]\w*|\bMODEL_(LM|NMT)\b")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b")


def without_comments(text, keep_strings):
    """Blanks comments (and string contents), keeping line numbers."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        found = match.group(0)
        if found.startswith("/"):
            return " " + "\n" * found.count("\n")
        return found if keep_strings else '""'

    return token.sub(blank, text)


def may_include(source, target):
    """Whether src/<source> may include "<target>" (both relative to src)."""
    if "/" not in target:
        return target == "ebb.h"
    if source.as_posix() == "device/registry.c":
        return target.startswith("device/") or target.split("/")[0] in LOWER["device"]
    if target.startswith("device/") and target.count("/") > 1:
        if target.startswith("device/gpu/") and source.parts[:2] == ("device", "opencl"):
            return True
        return source.parent.as_posix().startswith(Path(target).parent.as_posix())
    layer, wanted = source.parts[0], target.split("/")[0]
    return wanted == layer or wanted in LOWER.get(layer, [])


def op_rule(path):
    """Which use of op codes a file may not make: a pattern, or None where all is allowed.

    Kernels are listed by op, and grad and passes may emit nodes (a copy, a fill), but only the
    pattern passes may ask which op a node is.
    """
    if path.parts[0] != "src" or path.parts[1] in ("op", "model", "api", "device"):
        return None
    if path.parts[1] == "pass" and any(path.stem.startswith(name) for name in PATTERN_PASSES):
        return None
    return OP_ASKED if path.parts[1] in ("pass", "grad") else OP_CODE


def check_lines(path, text, report):
    code, bare = without_comments(text, True).splitlines(), without_comments(text, False).splitlines()
    source = path.parts[0] in ("src", "plugin")
    library = source and path.parts[1] != "cli"
    asked = op_rule(path)
    for number, line in enumerate(code, 1):
        match = INCLUDE.match(line)
        if match and path.parts[0] == "src" and not may_include(Path(*path.parts[1:]), match.group(1)):
            report(number, f'may not include "{match.group(1)}" (layers include only downwards)')
        if match and path.parts[0] == "plugin" and match.group(1) != PLUGIN_MAY_INCLUDE:
            report(number, f'may not include "{match.group(1)}" (no symbol of the program is there, so only {PLUGIN_MAY_INCLUDE})')
    for number, line in enumerate(bare, 1):
        allocates = ALLOCATE.search(line)
        if allocates and source and path.as_posix() != "src/base/alloc.c":
            report(number, f"{allocates.group(1)}(): memory comes only from base/alloc")
        prints = PRINT.search(line)
        if prints and library and (path.as_posix(), prints.group(1)) != MPI_IS_TOLD:
            report(number, f"{prints.group(1)}(): the library never prints, exits or reads the environment")
        kind = KIND_NAMED.search(line)
        if kind and path.parts[0] == "src" and path.parts[1] != "kind":
            report(number, f"'{kind.group(0)}': only src/kind names a kind of models; go through its list")
        op_code = asked.search(line) if asked else None
        if op_code:
            report(number, f"'{op_code.group(0)}': only op, model, api and pattern passes tell ops apart; read the op's columns")
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            report(number, "unfinished: finish it or open an issue")


def check_names(texts, report):
    """Functions that a header of src declares and no file but their own uses, nor a macro of the
    header. (Names of kernels are put together by macros, so that they cannot be looked for.)"""
    declared, used, twice = {}, {}, set()
    for path, text in texts.items():
        for number, line in enumerate(without_comments(text, False).splitlines(), 1):
            for name, call in NAME.findall(line):
                used.setdefault(name, set()).add(path)
                if call and path.suffix == ".h" and path.parts[0] == "src":
                    twice |= {name} & declared.keys()
                    declared.setdefault(name, (path, number))
    for name, (path, number) in declared.items():
        if len(used[name] - {path}) <= 1 and name not in twice and path.parts[2] != "cpu":
            report(path, number, f"{name}: only one file uses it; make it static, or drop it")


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    violations, texts = [], {}
    for path in sorted(p for top in ("src", "plugin", "include", "tests", "bench", "examples")
                       for p in (root / top).rglob("*") if p.suffix in (".c", ".h", ".def", ".inc")):
        short, text = path.relative_to(root), path.read_text()
        texts[short] = text
        report = lambda number, why, short=short: violations.append(f"{short}:{number}: {why}")
        lines = text.count("\n")
        if lines > MOST_LINES:
            report(lines, f"{lines} lines: split it ({MOST_LINES} at most)")
        if short.parts[0] == "src" and len(short.parts) > 2 and short.parts[1] not in LOWER:
            report(1, f"src/{short.parts[1]} is no layer; add it to tools/check_source.py")
        check_lines(short, text, report)
    check_names(texts, lambda path, number, why: violations.append(f"{path}:{number}: {why}"))
    print("\n".join(violations) if violations else "check_source: no violation")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
