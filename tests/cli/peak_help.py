"""What a command really took, beside what it planned: the resident peak of the process. Shared by
test_peak.py and bench/peaks.py."""
import os
import re
import resource
import subprocess

import ebbtest

ALLOWED = 32 << 20  # bytes above the plan: the program, its libraries, planning itself


class Peak:
    """An ended command: its exit code, output, and the most bytes that were resident."""

    def __init__(self, code, out, err, resident):
        self.code, self.out, self.err, self.resident = code, out, err, resident

    def planned(self):
        """What the command said it had planned; None if it did not say."""
        for pattern, text in ((r'"planned_peak_bytes": (\d+)', self.out), (r"peak .* = (\d+) bytes, all told", self.out + self.err),
                              (r"most memory \d+ bytes, planned (\d+)", self.err)):
            found = re.search(pattern, text)
            if found:
                return int(found.group(1))
        return None


def run(args, stdin=None, space=None):
    """Runs the command; `space` bytes of addresses are all it gets.

    The kernel counts what this Python held when it started the command as the command's own, which
    is far less than ALLOWED; a peak below that is known only to be no more. bench says its own."""
    command = [ebbtest.EBB, *map(str, args)]
    if space is not None:
        command = ["bash", "-c", f'ulimit -v {space >> 10}; exec "$0" "$@"', *command]
    files = {name: os.memfd_create(name) for name in ("out", "err")}
    with open(stdin or os.devnull, "rb") as source:
        process = subprocess.Popen(command, stdin=source, stdout=files["out"], stderr=files["err"])
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    text = {}
    for name, fd in files.items():
        os.lseek(fd, 0, os.SEEK_SET)
        with os.fdopen(fd, "rb") as file:
            text[name] = file.read().decode("utf8", "replace")
    said = re.search(r'"vm_hwm_bytes": (\d+)', text["out"])
    resident = int(said.group(1)) if said else usage.ru_maxrss << 10
    return Peak(process.returncode, text["out"], text["err"], resident)


def least(args, stdin=None):
    """The least budget that a command says it works with."""
    refused = run([*args, "--memory", "1"], stdin)
    found = re.search(r"the least that works is (\d+) bytes", refused.err)
    assert found, f"{args}: no least budget: {refused.err}"
    return int(found.group(1))


def own():
    """What counts as a command's own at least."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def store(folder, products):
    """A folder with a store of so many measured products."""
    maker = os.path.join(os.environ.get("EBB_BUILD", os.path.dirname(ebbtest.EBB)), "tests", "cli", "make_store")
    subprocess.run([maker, folder, str(products)], check=True)
    return folder


def lines(path, count, lengths, words=40, seed=1):
    """Sentences of the lengths given, in turn."""
    import random
    dice = random.Random(seed)
    rows = (" ".join("w%d" % dice.randrange(words) for _ in range(lengths[i % len(lengths)])) for i in range(count))
    return ebbtest.write(path, "\n".join(rows) + "\n")
