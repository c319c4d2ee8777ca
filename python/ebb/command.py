"""The command `ebb`: that of the wheel, or the one that is installed."""
from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence

from ._errors import UsageError, error
from ._native import PREFIX


def path() -> str:
    """Where the command is."""
    inside = PREFIX / "bin" / "ebb"
    found = os.environ.get("EBB") or (str(inside) if inside.exists() else shutil.which("ebb"))
    if not found:
        raise UsageError("the command ebb is not there: install a wheel of ebb, or the command (make install), or name it by $EBB")
    return found


def arguments(options: Mapping[str, Any]) -> List[str]:
    """Options of the command from keywords: save_every=100 is --save-every 100, feed=True is --feed, feed=False is --no-feed; a list is
    several words."""
    out: List[str] = []
    for name, value in options.items():
        option = name.rstrip("_").replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            out.append(f"--{option}" if value else f"--no-{option}")
        elif isinstance(value, (list, tuple)):
            out += [f"--{option}", *(os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in value)]
        else:
            out += [f"--{option}", os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return out


class _Ear(threading.Thread):
    """Hears what the command says, and remembers its last line; unless it is to be quiet, sys.stderr says it at once. That need not be the
    process' own: a notebook shows what goes there."""

    def __init__(self, stream: IO[bytes], quiet: bool) -> None:
        super().__init__(daemon=True)
        self.stream, self.to, self.last = stream, None if quiet else sys.stderr, ""
        self.start()

    def run(self) -> None:
        for line in self.stream:
            said = line.decode("utf8", "replace")
            self.last = said.strip() or self.last
            try:
                if self.to is not None:
                    self.to.write(said)
                    self.to.flush()
            except (OSError, ValueError):  # it was closed; the command must not wait for a reader
                self.to = None


def _is_terminal(stream: Any) -> bool:
    """Whether what the command says itself would be seen there: then it draws its progress."""
    try:
        return bool(stream.fileno() == 2 and stream.isatty())
    except (AttributeError, OSError, ValueError):
        return False


def call(*words: Any, quiet: bool = True, **options: Any) -> str:
    """Runs a command, e.g. call("data", "dates", "a.src", "a.tgt", lines=1000), and gives its output; what it says goes to sys.stderr unless it
    is to be quiet. A failure is the exception of its exit code. After Ctrl-C the command saves what it has; KeyboardInterrupt is raised when
    it has ended. A second Ctrl-C ends it at once."""
    line = [path(), *(str(word) for word in words), *arguments(options)]
    seen = not quiet and _is_terminal(sys.stderr)
    try:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=None if seen else subprocess.PIPE)
    except (OSError, ValueError) as why:  # it is not there; a zero character in a word
        raise UsageError(f"{line[0]} cannot be run: {why}") from None
    with process:
        ear = _Ear(process.stderr, quiet) if process.stderr is not None else None
        interrupted = 0
        while True:
            try:
                out = process.stdout.read() if process.stdout is not None else b""
                process.wait()
                if ear is not None:
                    ear.join()
                break
            except KeyboardInterrupt:
                # A terminal's Ctrl-C reached the command as well; that of a program or an editor did not. This signal asks it to stop and,
                # unlike SIGINT, may come again.
                interrupted += 1
                process.send_signal(signal.SIGUSR2 if interrupted == 1 else signal.SIGTERM)
    if interrupted > 0:
        raise KeyboardInterrupt
    if process.returncode != 0:
        last = ear.last if ear is not None else "what is wrong stands above"
        if not last:
            last = f"ebb {words[0] if words else ''}: exit code {process.returncode}"
        least = re.search(r"the least that works is (\d+) bytes", last)
        raise error(process.returncode, last[5:] if last.startswith("ebb: ") else last, int(least.group(1)) if least else 0)
    return out.decode("utf8", "replace")


def call_json(*words: Any, **options: Any) -> Dict[str, Any]:
    """The same of a command that gives JSON."""
    found: Dict[str, Any] = json.loads(call(*words, json=True, **options))
    return found


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """`python -m ebb ...` is the command."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    os.execv(path(), [path(), *words])
