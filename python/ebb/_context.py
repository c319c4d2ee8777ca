"""Contexts of the library, one a thread; the log; and Ctrl-C, heard while the library works."""
from __future__ import annotations

import _thread
import collections
import contextlib
import ctypes
import logging
import os
import signal
import threading
from typing import Any, Callable, Deque, Iterator, List, NoReturn, Optional, Tuple, TypeVar

from ._api import LogLevel, ebb_log_fn, ebb_stop_fn
from ._errors import NoMemoryError, StoppedError, UsageError, error
from ._native import lib

_T = TypeVar("_T")

logger = logging.getLogger("ebb")
_LEVELS = {LogLevel.ERROR: logging.ERROR, LogLevel.WARN: logging.WARNING, LogLevel.INFO: logging.INFO, LogLevel.DEBUG: logging.DEBUG}


def _log(user: Any, level: int, line: bytes) -> None:
    logger.log(_LEVELS.get(LogLevel(level), logging.INFO), "%s", line.decode("utf8", "replace"))


@contextlib.contextmanager
def _noting(note: Callable[[], None]) -> Iterator[None]:
    """Meanwhile Ctrl-C calls `note` instead of being raised, unless the program or somebody further out hears it already."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, lambda number, frame: note())
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupt_soon() -> None:
    """Raises KeyboardInterrupt in the main thread a moment later: what is raised while Python frees something is lost."""
    timer = threading.Timer(0.01, _thread.interrupt_main)
    timer.daemon = True
    timer.start()


class Held:
    """What stands for something of the library, which is there once: a copy would free it a second time."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: it stands for memory of this process; make or open another one")


class Context(Held):
    """What graphs, programs and runs of one thread share. Everything made in a thread is of its own context, so that threads work at the
    same time; nothing of it can be used by two threads at once, nor by a process that was forked off: that is refused.

    Every call of the library is made by alone()."""

    _dropped = False

    def __init__(self) -> None:
        self._process = os.getpid()
        self._busy: List[object] = []  # the first is whoever works with it
        self._users: List[None] = []
        self._dead: Deque[Tuple[Any, Any]] = collections.deque()
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

    # The library knows no locks: a second thread would write over what the first one is computing. Threads that work in teams are not
    # there after fork(), so that a step would wait for them for ever.

    def alone(self, work: Callable[..., _T], *given: Any) -> _T:
        """What work(*given) gives, while nobody else works with it.

        KeyboardInterrupt comes after any call, so that a lock that was just taken could stay so for ever: what says that somebody works here
        is put down where `finally` already watches."""
        if self._process != os.getpid():
            raise UsageError("it was made before this process was forked off, and works only where it was made; make it in this process, or start "
                             "processes by spawn")
        me = object()
        try:
            self._busy.append(me)
            if self._busy[0] is not me:
                raise UsageError("the library is at work with it, or with what was made in the same thread; use it from one thread at a time, and "
                                 "not in a function that the library calls")
            return work(*given)
        finally:
            if me in self._busy:
                self._busy.remove(me)
            self._bury()

    # What lives in a context is freed before it. Python ends in any order, so that they are counted, and frees in any thread, also while
    # the library works: then whoever works frees it when that is done. In a list and a deque since that needs no lock.

    def adopt(self) -> None:
        """One more graph, program or run."""
        self._users.append(None)

    def free(self, function: Any, handle: Any) -> None:
        """One less: its function frees it. A process that was forked off frees nothing of its parent's."""
        try:
            if self._process == os.getpid():
                self._dead.append((function, handle))
                self._bury()
        except KeyboardInterrupt:
            _interrupt_soon()

    def _bury(self) -> None:
        interrupted: List[None] = []
        if self._dead:
            with _noting(lambda: interrupted.append(None)):
                self._free_dead()
        if interrupted:
            _interrupt_soon()
        self._free_if_unused()

    def _free_dead(self) -> None:
        me = object()
        self._busy.append(me)
        while self._dead and self._busy[0] is me:
            function, handle = self._dead.popleft()
            function(handle)
            self._users.pop()
        self._busy.remove(me)

    def _free_if_unused(self) -> None:
        if self._dropped and not self._users and getattr(self, "handle", None) and self._process == os.getpid():
            lib.ebb_ctx_free(self.handle)
            self.handle = None  # type: ignore[assignment]

    def last_error(self) -> str:
        return str(lib.ebb_last_error(self.handle).decode("utf8", "replace"))

    def call(self, function: Any, *given: Any) -> None:
        """Calls a function of the library that gives a status, and raises what that stands for."""
        self.alone(lambda: self.check(function(*given)))

    def check(self, status: int) -> None:
        """The same of a function that was called."""
        if status != 0:
            raise error(status, self.last_error(), lib.ebb_least_bytes(self.handle))

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While the library works, Ctrl-C is noted instead of raised: a Python exception cannot pass through it. It is asked, ends soon,
        and KeyboardInterrupt is raised then."""
        self._asked[0] = False

        def note() -> None:
            self._asked[0] = True

        try:
            with _noting(note):
                yield
        except StoppedError:
            if not self._asked[0]:
                raise
        if self._asked[0]:
            self._asked[0] = False
            raise KeyboardInterrupt


_local = threading.local()


def current() -> Context:
    """The context of this thread, and of this process: one that was forked off has none yet."""
    found: Optional[Context] = getattr(_local, "context", None)
    if found is None or found._process != os.getpid():
        found = _local.context = Context()
    return found
