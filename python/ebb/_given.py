"""What callers give, as C takes it. ctypes would cut a text at a zero character, and an integer to its last bits, without a word."""
from __future__ import annotations

import operator
import os
from typing import Any, Union

from ._errors import UsageError

Path = Union[str, "os.PathLike[str]"]


def text(value: Any, what: str) -> bytes:
    """A name, or other text."""
    if not isinstance(value, str):
        raise UsageError(f"{what}: {type(value).__name__} is no text")
    if "\0" in value:
        raise UsageError(f"{what}: {value!r} holds a zero character")
    try:
        return value.encode("utf8", "surrogateescape")
    except UnicodeEncodeError as why:
        raise UsageError(f"{what}: {value!r} holds half a character, at {why.start}") from None


def path(value: Any, what: str) -> bytes:
    """Of a file or folder."""
    try:
        found = os.fsencode(value)
    except TypeError:
        raise UsageError(f"{what}: {type(value).__name__} is no path") from None
    if b"\0" in found:
        raise UsageError(f"{what}: {value!r} holds a zero character")
    return found


def whole(value: Any, what: str, bits: int = 32, signed: bool = True) -> int:
    """An integer that C has room for."""
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{what}: {value!r} is no whole number") from None
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    if not low <= number < high:
        raise UsageError(f"{what}: {number} is not between {low} and {high - 1}")
    return number


def number(value: Any, what: str) -> float:
    """A real number."""
    if isinstance(value, (str, bytes)):
        raise UsageError(f"{what}: {value!r} is no number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(f"{what}: {value!r} is no number") from None
