"""Sizes as people write them."""
from __future__ import annotations

import operator
import re
from typing import SupportsIndex, Union

from ._errors import UsageError

Size = Union[SupportsIndex, str, None]
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def size(value: Size) -> int:
    """Bytes of 512, "512M", "1.5GiB"; None is 0, which the library takes as: what the machine allows."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (SupportsIndex, str)):
        raise UsageError(f"memory: {value!r} is no size; write 512M or a number of bytes")
    if not isinstance(value, str):
        number: float = operator.index(value)  # of NumPy too
    else:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", value, re.I)
        if not found:
            raise UsageError(f"memory: {value!r} is no size; write 512M, 1.5GiB or a number of bytes")
        number = float(found.group(1)) * 1024 ** _UNITS[found.group(2).upper()]
    if not 1 <= number < 2**63:
        raise UsageError(f"memory: {value!r} is not between 1 and 2^63 bytes")
    return int(number)


def shown(count: float) -> str:
    """1536 as "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
