"""Devices that compile() can be given by name: those of `ebb devices`."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List

from ._api import ebb_device_fn
from ._context import current
from ._native import lib


@dataclass
class Device:
    """Its name is what compile(device=...) takes; why_not says why it cannot be used, and is "" where it can. Bytes are 0 of the CPU."""

    name: str
    what: str
    why_not: str
    memory_bytes: int
    largest_bytes: int


def devices() -> List[Device]:
    """All of them, the CPU first. Asking a device for the first time may take seconds: its kernels are compiled."""
    found: List[Device] = []

    def keep(user: Any, one: Any) -> None:
        name, what, why_not = (text.decode("utf8", "replace") for text in (one[0].name, one[0].what, one[0].why_not))
        found.append(Device(name, what, why_not, one[0].memory_bytes, one[0].largest_bytes))

    context = current()
    context.call(lib.ebb_devices, context.handle, None, ebb_device_fn(keep), None)
    return found
