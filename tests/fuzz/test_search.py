"""Looks for inputs that break a parser: every target of targets.def under libFuzzer, ASan and
UBSan, from the kept corpus on. A test run gives each target a moment and the same dice every time;
`make fuzz SECONDS=600 T=vocab` looks longer, with dice of its own, and can keep what it found.

What breaks a target lies in build-fuzz/found afterwards. Once mended, it belongs into
tests/fuzz/corpus/<target>, which every test run replays (test_replay.c).
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "..", "build-fuzz")
PROGRAM = os.path.join(BUILD, "ebb_fuzz")
KEPT_MOST = 4096  # bytes of an input that is worth keeping


def targets():
    with open(os.path.join(HERE, "targets.def"), encoding="utf8") as file:
        return re.findall(r"^X\((\w+)\)", file.read(), re.M)


def folder(*parts):
    path = os.path.normpath(os.path.join(*parts))
    os.makedirs(path, exist_ok=True)
    return path


def fuzz(target, *args):
    """libFuzzer's exit code and what it said; inputs live in memory where there is such a place."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else os.environ.get("TMPDIR", "/tmp")
    work = folder(place, f"ebb-fuzz-{os.getpid()}")
    env = {**os.environ, "TMPDIR": work, "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1",
           "UBSAN_OPTIONS": "print_stacktrace=1"}
    try:
        done = subprocess.run([PROGRAM, f"--target={target}", *args], env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return done.returncode, done.stdout.decode("utf8", "replace")


def search(target, seconds, seed, new):
    """Whether nothing was found; new inputs of interest go to the folder `new`."""
    kept, found = folder(HERE, "corpus", target), folder(BUILD, "found")
    code, said = fuzz(target, f"-max_total_time={seconds}", f"-seed={seed}", "-timeout=20", "-rss_limit_mb=2048",
                      "-max_len=4096", f"-dict={HERE}/keys.dict", f"-artifact_prefix={found}/{target}-",
                      "-print_final_stats=1", new, kept)
    runs = re.search(r"number_of_executed_units:\s*(\d+)", said)
    print(f"{target}: {runs.group(1) if runs else '?'} inputs{'' if code == 0 else ', one of which breaks it:'}", flush=True)
    if code != 0:
        print("\n".join(said.splitlines()[-60:]))
        print(f"again: {os.path.relpath(PROGRAM)} --target={target} FILE", flush=True)
    return code == 0


def keep(target):
    """Adds to the kept corpus what reaches code that it does not reach yet."""
    new, kept = folder(BUILD, "corpus", target), folder(HERE, "corpus", target)
    for name in os.listdir(new):
        if os.path.getsize(os.path.join(new, name)) > KEPT_MOST:
            os.remove(os.path.join(new, name))
    before = len(os.listdir(kept))
    code, said = fuzz(target, "-merge=1", "-use_counters=0", kept, new)
    if code != 0:
        print(said[-2000:])
    print(f"{target}: {len(os.listdir(kept)) - before} inputs more are kept", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("target", nargs="*", help="all, if none is named")
    parser.add_argument("--seconds", type=int, default=1, help="for each target")
    parser.add_argument("--seed", type=int, default=1, help="of the dice; 0: another one every time")
    parser.add_argument("--keep", action="store_true", help="add what was found to tests/fuzz/corpus")
    args = parser.parse_args()
    if not os.path.exists(PROGRAM) or os.environ.get("EBB_SANITIZE"):
        print("skipped: no build-fuzz/ebb_fuzz: it needs clang with libFuzzer (tools/setup.sh fuzz)")
        return 77
    chosen = args.target or targets()
    for target in chosen:
        if target not in targets():
            print(f"no target {target}; there are: {' '.join(targets())}")
            return 2
    good = []
    for target in chosen:
        # With the same dice every time the search starts from the same place, too.
        new = folder(BUILD, "corpus" if args.seed == 0 else "once", target)
        good.append(search(target, args.seconds, args.seed, new))
        if args.seed != 0:
            shutil.rmtree(new)
    if args.keep:
        for target in chosen:
            keep(target)
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
