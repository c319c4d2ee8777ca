"""Little room from the system: an error of one line, whatever is missing; never a signal, never a wait."""
import os
import resource
import subprocess

from ebbtest import EBB, SANITIZED, ebb, main, text, write

RUN = ["train", "lm", "--train", "t", "--hidden", "64", "--layers", "1", "--steps", "1", "--memory", "200M", "--threads", "1", "--quiet", "--fresh", "--out"]


def limited(kib, args, stdin=None):
    """Runs the command in an address space of so many KiB; it does its work or says in one line what it did not get."""
    with open(stdin or os.devnull, "rb") as source:
        done = subprocess.run([EBB, *args], stdin=source, capture_output=True, timeout=250,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (kib << 10, kib << 10)))
    lines = done.stderr.decode().splitlines()
    assert done.returncode in (0, 1, 8), f"{kib} KiB: exit {done.returncode}: {lines}"
    assert done.returncode == 0 or len(lines) == 1 and lines[0].startswith("ebb: "), f"{kib} KiB: {lines}"
    return done.returncode, lines[0] if lines else ""


def walk(args, stdin=None, step=2 << 10):
    """From nothing fits to all does; then in small steps around each change of what is said."""
    said = []
    while [code for _, code, _ in said[-2:]] != [0, 0]:
        kib = said[-1][0] + step if said else 8 << 10
        assert kib < 1 << 20, said
        said.append((kib, *limited(kib, args, stdin)))
    assert said[0][1] != 0, said
    for (before, *a), (after, *b) in zip(said, said[1:]):
        if a != b:
            for kib in range(before, after, step // 8):
                limited(kib, args, stdin)
    return [line for _, _, line in said]


USES_XSMM = "libxsmm" in subprocess.run([EBB, "--version"], capture_output=True, text=True).stdout


def test_no_address_space():
    if SANITIZED:
        return  # a sanitizer maps more than any limit
    text("t")
    walk([*RUN, "out"])
    # Without a text nothing asks for more than libxsmm does.
    said = walk(["bench", "lm", "--hidden", "48", "--vocab", "100", "--batch", "4", "--bptt", "8", "--steps", "2", "--memory", "100M", "--threads", "1", "--json"])
    assert any("libxsmm" in line for line in said) or not USES_XSMM, said
    ebb(*RUN, "model")
    walk(["generate", "model", "--length", "5", "--memory", "100M", "--threads", "1", "--quiet"])
    ebb("data", "dates", "s", "t2", "--lines", "40")
    ebb("train", "nmt", "--train", "s", "t2", "--tokens", "char", "--hidden", "32", "--embed", "16", "--batch", "8", "--steps", "1", "--threads", "1",
        "--quiet", "--out", "pairs")
    walk(["decode", "pairs", "--memory", "100M", "--threads", "1", "--quiet"], "s")


def in_own_tmp(setup, *args):
    """The command where /tmp is another folder, which `setup` (in sh) fills; None where that cannot be had."""
    script = f'mount -t tmpfs none /tmp && {setup} && exec "$0" "$@"'
    for unshare in (["unshare", "-m"], ["unshare", "-Urm"]):
        try:
            if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True).returncode == 0:
                return subprocess.run([*unshare, "sh", "-c", script, EBB, *args], capture_output=True, text=True, timeout=60)
        except FileNotFoundError:
            break
    return None


def test_what_libxsmm_locks():
    """It would wait for ever for a pipe, and write where a link leads."""
    text("t")
    if not USES_XSMM or EBB.startswith("/tmp/") or in_own_tmp("true", "--version") is None:
        print("SKIPPED test_what_libxsmm_locks: no libxsmm, or no /tmp of one's own")
        return
    write("victim", "")
    victim = os.path.abspath("victim")
    for setup in ("mkfifo /tmp/.libxsmm.$(id -u)", f"ln -s {victim} /tmp/.libxsmm.$(id -u)", "mkdir /tmp/.libxsmm.$(id -u)"):
        done = in_own_tmp(setup, *RUN, "out")
        assert done.returncode == 7 and len(done.stderr.splitlines()) == 1 and ".libxsmm." in done.stderr, done
    assert in_own_tmp("touch /tmp/.libxsmm.$(id -u)", *RUN, "out").returncode == 0
    assert in_own_tmp("chmod 555 /tmp", *RUN, "out").returncode == 0


if __name__ == "__main__":
    main(globals())
