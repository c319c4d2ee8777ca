"""Contexts of the library, one a thread; the log; and Ctrl-C, heard while the library works."""
from __future__ import annotations

import contextlib
import ctypes
import logging
import signal
import threading
from typing import Any, Callable, Iterator, Optional

from ._api import LogLevel, ebb_log_fn, ebb_stop_fn
from ._errors import NoMemoryError, StoppedError, error
from ._native import lib

logger = logging.getLogger("ebb")
_LEVELS = {LogLevel.ERROR: logging.ERROR, LogLevel.WARN: logging.WARNING, LogLevel.INFO: logging.INFO, LogLevel.DEBUG: logging.DEBUG}


def _log(user: Any, level: int, line: bytes) -> None:
    logger.log(_LEVELS.get(LogLevel(level), logging.INFO), "%s", line.decode("utf8", "replace"))


class Context:
    """What graphs, programs and runs of one thread share. Everything made in a thread is of its own context, so that threads work at the
    same time; nothing of it may be used by two threads at once."""

    _users, _dropped = 0, False

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        if lib.ebb_ctx_new(ctypes.byref(handle)) != 0:
            raise NoMemoryError("no memory for a context")
        self.handle = handle
        asked = self._asked = [False]  # whether to stop
        # The library keeps the pointers, so that these must live as long; they do not know the context, which is freed when nobody does.
        self._on_log = ebb_log_fn(_log)
        self._on_stop = ebb_stop_fn(lambda user: int(asked[0]))
        lib.ebb_ctx_on_log(handle, self._on_log, None)
        lib.ebb_ctx_on_stop(handle, self._on_stop, None)

    def __del__(self) -> None:
        self._dropped = True
        self._free_if_unused()

    # What lives in a context is freed before it. Python ends in any order, so that they are counted.

    def adopt(self) -> None:
        """One more graph, program or run."""
        self._users += 1

    def release(self) -> None:
        """One less, which was freed."""
        self._users -= 1
        self._free_if_unused()

    def _free_if_unused(self) -> None:
        if self._dropped and self._users == 0 and getattr(self, "handle", None):
            lib.ebb_ctx_free(self.handle)
            self.handle = None  # type: ignore[assignment]

    def last_error(self) -> str:
        return str(lib.ebb_last_error(self.handle).decode("utf8", "replace"))

    def check(self, status: int) -> None:
        """Raises what a status stands for."""
        if status != 0:
            raise error(status, self.last_error(), lib.ebb_least_bytes(self.handle))

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While the library works, Ctrl-C is noted instead of raised: a Python exception cannot pass through it. It is asked, ends soon,
        and KeyboardInterrupt is raised then."""
        self._asked[0] = False
        before: Optional[Callable[..., Any]] = None
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            before = signal.default_int_handler

            def note(number: int, frame: Any) -> None:
                self._asked[0] = True

            signal.signal(signal.SIGINT, note)
        try:
            yield
        except StoppedError:
            if not self._asked[0]:
                raise
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)
        if self._asked[0]:
            self._asked[0] = False
            raise KeyboardInterrupt


_local = threading.local()


def current() -> Context:
    """The context of this thread."""
    found: Optional[Context] = getattr(_local, "context", None)
    if found is None:
        found = _local.context = Context()
    return found
