"""Processes that mpirun started, which train graphs together."""
from __future__ import annotations

import ctypes
from typing import Optional

from ._api import ebb_getenv_fn
from ._context import Held, current
from ._given import number, path as path_of
from ._native import lib


class Ranks(Held):
    """The processes that mpirun started, this one among them; without mpirun it is alone. All make it, once, build the same graphs and compile
    them with `ranks`; then the first goes on as if it were alone, and the others follow:

        ranks = ebb.Ranks()
        program = ebb.compile(loss, ranks=ranks, stages=ranks.count)
        if ranks.number == 0:
            train(program)
        else:
            program.follow()
    """

    def __init__(self, lost_after: float = 30.0, plugin: Optional[str] = None) -> None:
        self._context, self._handle = current(), ctypes.c_void_p()
        options = lib.ebb_ranks_options_default()
        options.lost_after = number(lost_after, "lost_after")
        options.plugin = path_of(plugin, "plugin") if plugin else None
        look = ctypes.cast(ctypes.CDLL(None).getenv, ebb_getenv_fn)
        self._context.call(lib.ebb_ranks_open, self._context.handle, look, ctypes.byref(options), ctypes.byref(self._handle))
        self._context.adopt()

    def __del__(self) -> None:
        # Programs hold on to it, so that they are gone.
        if getattr(self, "_handle", None):
            self._context.free(lib.ebb_ranks_close, self._handle)
            self._handle = ctypes.c_void_p()

    @property
    def count(self) -> int:
        """How many there are."""
        return int(lib.ebb_ranks_count(self._handle))

    @property
    def number(self) -> int:
        """Of this process, from 0; 0 leads."""
        return int(lib.ebb_ranks_number(self._handle))

    def __repr__(self) -> str:
        return f"Ranks({self.number} of {self.count})"
