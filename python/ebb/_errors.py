"""Exceptions, one for each status of the library."""
from __future__ import annotations

from typing import Dict, Optional, Type

from ._api import Status


class EbbError(Exception):
    """Something failed. `status` says what kind of failure, the text is the library's sentence."""

    status: Status = Status.INTERNAL


class InternalError(EbbError):
    """A mistake of ebb itself."""

    status = Status.INTERNAL


class UsageError(EbbError, ValueError):
    """A call that makes no sense: wrong shape or dtype, an array that is not contiguous, no such name."""

    status = Status.USAGE


class DataError(EbbError, ValueError):
    """Data that cannot be: an id beyond its table, an image that cannot be decoded."""

    status = Status.DATA


class BudgetError(EbbError, MemoryError):
    """It does not fit the budget. `least_bytes` is the smallest budget that works, if it is known."""

    status = Status.BUDGET
    least_bytes: Optional[int] = None


class ModelError(EbbError):
    """No run, or a damaged one; weights of another shape."""

    status = Status.MODEL


class DivergedError(EbbError, ArithmeticError):
    """The loss or a gradient is not finite."""

    status = Status.DIVERGED


class InputOutputError(EbbError, OSError):
    """Reading or writing a file failed."""

    status = Status.IO


class NoMemoryError(EbbError, MemoryError):
    """The system gave no memory."""

    status = Status.NOMEM


class LostError(EbbError):
    """One of several processes was lost."""

    status = Status.LOST


class StoppedError(EbbError):
    """Stopped before it was done, because somebody asked for it."""

    status = Status.STOPPED


BY_STATUS: Dict[int, Type[EbbError]] = {
    kind.status: kind
    for kind in (InternalError, UsageError, DataError, BudgetError, ModelError, DivergedError, InputOutputError, NoMemoryError,
                 LostError, StoppedError)
}


def error(status: int, sentence: str, least_bytes: int = 0) -> EbbError:
    """The exception that stands for a status."""
    raised = BY_STATUS.get(status, EbbError)(sentence or f"status {status}")
    if isinstance(raised, BudgetError) and least_bytes > 0:
        raised.least_bytes = least_bytes
    return raised
