"""Compiled graphs: values by name, steps, files."""
from __future__ import annotations

import ctypes
import math
from typing import Any, Dict, Iterator, List, Optional, Sequence, Union

from ._api import Dtype, Role, ebb_plan_info, ebb_shape
from ._arrays import NAMES, checked, dims_of, new, view_of
from ._context import Held
from ._errors import UsageError
from ._given import Path, number, path as path_of, text, whole
from ._native import lib
from ._sizes import Size
from .graph import Graph, Value
from .plan import Plan, draw_graph, native_options, plan_of


class Program(Held):
    """A graph compiled under a budget. Made by compile().

    for xs, ys in batches:
        loss = program.step(lr=1e-3, x=xs, y=ys)
    """

    def __init__(self, graph: Graph, handle: ctypes.c_void_p, memory: Size, options: Dict[str, Any], alone: bool) -> None:
        self._graph, self._context, self._handle = graph, graph._context, handle
        self._memory, self._options, self._alone = memory, options, alone
        self._context.adopt()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._context.free(lib.ebb_program_free, self._handle)
            self._handle = None  # type: ignore[assignment]

    # ---- values ----

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def names(self, role: Optional[str] = None) -> List[str]:
        """Everything that can be read: all, or those of a role (param, slot, state, input, output)."""
        found: List[str] = []
        while True:
            name = lib.ebb_program_name(self._handle, len(found))
            if name is None:
                break
            found.append(name.decode("utf8", "surrogateescape"))  # as text() takes them
        return found if role is None else [name for name in found if Role(self._shape(name).role).name.lower() == role]

    def _shape(self, name: str) -> ebb_shape:
        out = ebb_shape()
        self._context.call(lib.ebb_program_shape, self._handle, text(name, "name"), ctypes.byref(out))
        return out

    def shape(self, name: str) -> "tuple[int, ...]":
        """The sizes of a value."""
        return dims_of(self._shape(name))

    def dtype(self, name: str) -> str:
        """float32 or int32."""
        return NAMES[Dtype(self._shape(name).dtype)]

    def set(self, name: str, array: Any) -> None:
        """Copies an array of exactly the value's dtype and shape into it."""
        shape = self._shape(name)
        found = checked(array, shape, name)
        self._context.call(lib.ebb_program_set, self._handle, text(name, "name"), found.address, shape.bytes)

    __setitem__ = set

    def get(self, name: str) -> Any:
        """A copy: a NumPy array where NumPy is installed, else a memoryview."""
        shape = self._shape(name)
        array, address = new(shape)
        self._context.call(lib.ebb_program_get, self._handle, text(name, "name"), address, shape.bytes)
        return array

    __getitem__ = get

    def view(self, name: str) -> Any:
        """The bytes themselves, without a copy; to be read, and written unless it is an output, between steps. Ids and labels have none: they
        are checked when they are set."""
        address, shape = ctypes.c_void_p(), ebb_shape()
        self._context.call(lib.ebb_program_data, self._handle, text(name, "name"), ctypes.byref(address), ctypes.byref(shape))
        return view_of(int(address.value or 0), shape, self, shape.role != Role.OUTPUT)

    # ---- steps ----

    def init(self, seed: int = 1) -> "Program":
        """Starts over: parameters drawn from the seed, all else zero."""
        self._context.call(lib.ebb_program_init, self._handle, whole(seed, "seed", 64, signed=False))
        return self

    def run(self, lr: float = 0.0) -> None:
        """One step, on what was set. The GIL is released while it works; it never allocates."""
        self._context.call(lib.ebb_program_run, self._handle, number(lr, "lr"))

    def step(self, lr: float = 0.0, **inputs: Any) -> float:
        """Sets inputs, runs one step, gives the loss (NaN where there is none)."""
        for name, array in inputs.items():
            self.set(name, array)
        self.run(lr)
        return self.loss

    def follow(self) -> None:
        """Of a process that does not lead (see Ranks): does what the leader's calls ask for, until that has no programs any more."""
        self._context.call(lib.ebb_program_follow, self._handle)

    @property
    def loss(self) -> float:
        """Of the last step."""
        return float(lib.ebb_program_loss(self._handle))

    @property
    def grad_norm(self) -> float:
        """Of all gradients of the last step together, before clipping."""
        return float(lib.ebb_program_grad_norm(self._handle))

    @property
    def steps(self) -> int:
        """Steps since the start: what Adam and dropout count by."""
        return int(lib.ebb_program_steps(self._handle))

    @steps.setter
    def steps(self, count: int) -> None:
        lib.ebb_program_set_steps(self._handle, whole(count, "steps", 64, signed=False))

    @property
    def plan(self) -> Plan:
        """What it takes, to the byte."""
        info = ebb_plan_info()
        self._context.call(lib.ebb_program_plan, self._handle, ctypes.byref(info))
        return plan_of(info, (lambda: draw_graph(self._graph, self._memory, self._options)) if self._alone else None)

    @property
    def measured_bytes(self) -> int:
        """The highest byte used so far, tracked apart from the plan."""
        return int(lib.ebb_program_measured(self._handle))

    def _repr_html_(self) -> str:
        return self.plan._repr_html_()

    def __repr__(self) -> str:
        loss = "" if math.isnan(self.loss) else f", loss {self.loss:.6g}"
        return f"Program({self.plan.peak_bytes} bytes, {self.steps} steps{loss})"

    # ---- files ----

    def save(self, path: Path) -> None:
        """All parameters as a safetensors file."""
        self._context.call(lib.ebb_program_save, self._handle, path_of(path, "path"))

    def load(self, path: Path) -> None:
        """Every parameter from a safetensors file."""
        self._context.call(lib.ebb_program_load, self._handle, path_of(path, "path"))

    def save_all(self, path: Path) -> None:
        """All that training goes on from: parameters, optimiser, states, number of steps."""
        self._context.call(lib.ebb_program_save_all, self._handle, path_of(path, "path"))

    def load_all(self, path: Path) -> None:
        """The same back: a run that goes on from it ends with the bits of an unbroken one."""
        self._context.call(lib.ebb_program_load_all, self._handle, path_of(path, "path"))

    def copy_from(self, other: "Program") -> None:
        """Every parameter from the one of that name in another program."""
        self._context.call(lib.ebb_program_copy, self._handle, other._handle)


def native_number(options: Dict[str, Any]) -> int:
    """Of this process, where several compile; the others start as the leader says."""
    ranks = options.get("ranks")
    return int(ranks.number) if ranks is not None else 0


def compile(what: Union[Value, Graph], memory: Size = None, seed: Optional[int] = 1, **options: Any) -> Program:
    """A program of a graph that fits the budget. `what` is the loss, which is then trained, or a graph. Options: optimizer ("sgd", "adam",
    "adamw", None), momentum, beta1, beta2, eps, weight_decay, clip, threads, shards, disable, device
    ("opencl"; the memory is then the device's), ranks (Ranks), stages, reduce ("slices", "copies", "central", "auto"). Parameters are drawn from the seed.

    Raises BudgetError with `least_bytes` if the budget is too small. Ctrl-C is heard."""
    graph = what.graph if isinstance(what, Value) else what
    if not isinstance(graph, Graph):
        raise UsageError(f"{type(what).__name__} is neither a value nor a graph")
    native_options(memory, options, True)  # before anything is done to the graph
    if isinstance(what, Value) and not graph.has_loss:
        graph.loss(what)
    return compile_all([graph], 1 if graph.has_loss and options.get("optimizer", "sgd") not in (None, "forward") else 0, memory, seed, **options)[0]


def compile_all(graphs: Sequence[Graph], train: int = 1, memory: Size = None, seed: Optional[int] = 1, **options: Any) -> List[Program]:
    """Several graphs over one set of variables and one memory, e.g. to train, to evaluate, to predict: the first `train` of them are trained,
    the others computed. Variables of one name are one."""
    if not graphs or not all(isinstance(graph, Graph) for graph in graphs):
        raise UsageError("a list of graphs is needed, one at least")
    context = graphs[0]._context
    native = native_options(memory, options, train > 0)
    handles = (ctypes.c_void_p * len(graphs))(*(graph._handle for graph in graphs))
    out = (ctypes.c_void_p * len(graphs))()
    with context.listening():
        context.call(lib.ebb_compile_all, handles, len(graphs), whole(train, "train"), ctypes.byref(native), out)
    programs = [Program(graph, ctypes.c_void_p(handle), memory, options, len(graphs) == 1) for graph, handle in zip(graphs, out)]
    if seed is not None and native_number(options) == 0:
        programs[0].init(seed)
    return programs
