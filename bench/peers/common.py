"""What the speed peers share: options named as those of `ebb bench lm`, memory, timing, the report.

Standard library only: threads must be limited before a peer imports its engine.
"""
import argparse
import json
import os
import statistics
import time

WARM_UP_SECONDS, MOST_WARM_UP = 1.0, 10


def options(description, modes):
    """The command line of a peer; the same names and defaults as `ebb bench lm`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--mode", choices=modes, default=modes[0])
    parser.add_argument("--cell", choices=("lstm", "gru", "rnn"), default="lstm")
    for name, default in (("layers", 2), ("hidden", 200), ("embed", 0), ("vocab", 10000),
                          ("batch", 20), ("bptt", 35), ("threads", 2), ("steps", 10), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("dropout", 0.0), ("lr", 1.0), ("clip", 5.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    chosen = parser.parse_args()
    chosen.embed = chosen.embed or chosen.hidden
    return chosen


def limit_cores(threads):
    """Leaves this process `threads` of the cores it may use, before any engine counts them."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:threads])
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)


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


def measure(step, chosen, engine, base, late):
    """Times step(), which returns the loss as a number and so ends when its work is done.

    base: bytes resident with the engine loaded and nothing built; late: what the engine loads on
    first use, with no model yet (counted in peak_bytes, reported so that it can be taken off).
    The first call compiles where the engine compiles. Neither its time nor its memory counts: the
    peak is that of the steps.
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
    median = statistics.median(seconds)
    print(json.dumps({
        "engine": engine, "mode": chosen.mode, "threads": chosen.threads,
        "words_per_second": round(chosen.batch * chosen.bptt / median, 1),
        "seconds_per_step": median, "least_seconds_per_step": min(seconds),
        "peak_bytes": peak - base, "absolute_peak_bytes": peak, "library_bytes": base,
        "late_library_bytes": late,
        "peak_bytes_with_compiling": max(with_compiling, peak) - base,
        "first_step_seconds": round(first, 3), "loss": loss,
    }))
