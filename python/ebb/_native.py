"""The shared library: found, loaded, and every function given its types. ctypes releases the GIL while a function of it runs."""
from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from ._api import FUNCTIONS

PREFIX = Path(__file__).resolve().parent / "_prefix"  # what a binary wheel brings: bin, lib


def _candidates() -> list[str]:
    given = os.environ.get("EBB_LIBRARY")
    if given:
        return [given]
    inside = sorted(str(path) for path in (PREFIX / "lib").glob("libebb.so.*"))
    return inside[:1] or ["libebb.so.0"]


def _load() -> Any:
    [name] = _candidates()
    try:
        library = ctypes.CDLL(name)
    except OSError as why:
        raise ImportError(f"libebb is not there: {why}; install a wheel of ebb, or the library (make install), or name it by $EBB_LIBRARY") from None
    for function, (result, parameters) in FUNCTIONS.items():
        try:
            found = getattr(library, function)
        except AttributeError:
            raise ImportError(f"{name}: has no {function}: it is of another version of ebb") from None
        found.restype, found.argtypes = result, parameters
    return library


lib = _load()


def version() -> str:
    """The version of the library."""
    return str(lib.ebb_version().decode())
