"""What the speed peers share: options named as those of `ebb bench`, memory, timing, the report.

Standard library only: threads must be limited before a peer imports its engine.
"""
import argparse
import ctypes
import gc
import json
import os
import statistics
import time

WARM_UP_SECONDS, MOST_WARM_UP = 1.0, 10


def parser_of(description, modes, sizes, reals):
    """A parser with --mode and the given numbers, {name: default}."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--mode", choices=modes, default=modes[0])
    for name, default in {**sizes, "vocab": 10000, "threads": 2, "steps": 10, "seed": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in reals.items():
        parser.add_argument(f"--{name}", type=float, default=default)
    return parser


def options(description, modes):
    """The command line of a language model; the same names and defaults as `ebb bench lm`."""
    parser = parser_of(description, modes, {"layers": 2, "hidden": 200, "embed": 0, "batch": 20, "bptt": 35},
                       {"dropout": 0.0, "lr": 1.0, "clip": 5.0})
    parser.add_argument("--cell", choices=("lstm", "gru", "rnn"), default="lstm")
    chosen = parser.parse_args()
    chosen.embed = chosen.embed or chosen.hidden
    chosen.words = chosen.batch * chosen.bptt
    return chosen


def nmt_options(description, modes, **more):
    """The command line of a translation model, as `ebb bench nmt`; more: further real numbers."""
    parser = parser_of(description, modes, {"hidden": 512, "batch": 64, "src-len": 30, "tgt-len": 30},
                       {"lr": 1e-3, "clip": 1.0, **more})
    chosen = parser.parse_args()
    chosen.words = chosen.batch * chosen.tgt_len
    return chosen


def limit_cores(threads):
    """Leaves this process `threads` of the cores it may use, before any engine counts them."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:threads])
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)


def limit_xla(threads):
    """XLA counts the cores of the affinity mask for its pool; Eigen is told if it is one thread."""
    flags = os.environ.get("XLA_FLAGS", "")
    if threads == 1:
        flags += " --xla_cpu_multi_thread_eigen=false"
    os.environ["XLA_FLAGS"] = flags.strip()
    os.environ["JAX_PLATFORMS"] = "cpu"


def resident_bytes(field):
    """VmRSS (now) or VmHWM (the most so far) of this process."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise SystemExit(f"no {field} in /proc/self/status")


def forget_peak():
    """Makes VmHWM start again from what is resident now, where the kernel lets us."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def give_back():
    """Returns to the system what only the compiler used and the allocator still holds (glibc)."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)


def measure(step, chosen, engine, base, late):
    """Times step(), which returns the loss as a number and so ends when its work is done.

    base: bytes resident with the engine loaded and nothing built; late: what the engine loads on
    first use, with no model yet (counted in peak_bytes, reported so that it can be taken off).
    The first call compiles where the engine compiles. Neither its time nor its memory counts: the
    peak is that of the steps. What the compiler left in the allocator still does; so there are two
    more steps without it, and their peak is reported too.
    """
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    with_compiling = resident_bytes("VmHWM")
    warm_up_start = time.perf_counter()
    for done in range(MOST_WARM_UP):
        step()
        if done >= 1 and time.perf_counter() - warm_up_start > WARM_UP_SECONDS:
            break
    forget_peak()
    seconds = []
    for _ in range(chosen.steps):
        start = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - start)
    peak = resident_bytes("VmHWM")
    give_back()
    forget_peak()
    step()
    step()
    lean = min(peak, resident_bytes("VmHWM"))
    median = statistics.median(seconds)
    print(json.dumps({
        "engine": engine, "mode": chosen.mode, "threads": chosen.threads,
        "words_per_second": round(chosen.words / median, 1),
        "seconds_per_step": median, "least_seconds_per_step": min(seconds),
        "peak_bytes": peak - base, "absolute_peak_bytes": peak, "library_bytes": base,
        "late_library_bytes": late, "lean_peak_bytes": lean - base - late,
        "peak_bytes_with_compiling": max(with_compiling, peak) - base,
        "first_step_seconds": round(first, 3), "loss": loss,
    }))
