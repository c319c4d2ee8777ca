"""The command `ebb`: that of the wheel, or the one that is installed."""
from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any, Dict, List, Mapping, Optional, Sequence

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


def call(*words: Any, quiet: bool = True, **options: Any) -> str:
    """Runs a command, e.g. call("data", "dates", "a.src", "a.tgt", lines=1000), and gives its output. A failure is the exception of its exit
    code. Ctrl-C reaches the command too, which saves what it has; KeyboardInterrupt is raised when it has ended."""
    line = [path(), *(str(word) for word in words), *arguments(options)]
    try:
        process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE if quiet else None)
    except (OSError, ValueError) as why:  # it is not there; a zero character in a word
        raise UsageError(f"{line[0]} cannot be run: {why}") from None
    with process:
        interrupted = False
        while True:
            try:
                out, said = process.communicate()
                break
            except KeyboardInterrupt:
                interrupted = True  # the command got the signal as well
    if interrupted:
        raise KeyboardInterrupt
    if process.returncode != 0:
        lines = (said or b"").decode("utf8", "replace").strip().splitlines()
        last = lines[-1] if lines else f"ebb {words[0] if words else ''}: exit code {process.returncode}"
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
