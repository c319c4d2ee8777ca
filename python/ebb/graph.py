"""Models as expressions: a Graph holds values, operators and functions make new ones.

    g = Graph()
    x = g.input("x", (32, 784))
    hidden = relu(x @ g.param("w", (100, 784)).T + g.param("b", (100,)))
"""
from __future__ import annotations

import contextlib
import ctypes
from typing import TYPE_CHECKING, Any, Iterator, Optional, Sequence, Tuple, Union

from ._api import EBB_NO_VALUE, Dtype, Picture, ebb_shape
from ._arrays import NAMES, dims_of
from ._context import Held, current
from ._errors import UsageError
from ._given import text, whole
from ._native import lib
from ._sizes import Size

if TYPE_CHECKING:
    from .plan import Plan, Drawing

Number = Union[int, float]


def _is_number(x: object) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


class Graph(Held):
    """Values of one model, of the thread that made it. A mistake is raised where it is made, and the graph is void from then on."""

    def __init__(self, seed: int = 1) -> None:
        self._context = current()
        handle = ctypes.c_void_p()
        self._context.call(lib.ebb_graph_new, self._context.handle, ctypes.byref(handle))
        self._context.adopt()
        self._handle: Optional[ctypes.c_void_p] = handle
        self.has_loss = False
        self._layers = [b"model"]
        self._tell(lib.ebb_graph_seed, whole(seed, "seed", 64, signed=False))
        self._tell(lib.ebb_layer, b"model")

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._context.free(lib.ebb_graph_free, self._handle)
            self._handle = None

    def _tell(self, function: Any, *given: Any) -> Any:
        """Calls a function of the graph; gives what it gives, or raises the graph's mistake."""
        def tell() -> Any:
            found = function(self._handle, *given)
            self._context.check(lib.ebb_graph_status(self._handle))
            return found

        return self._context.alone(tell)

    def _value(self, function: Any, *given: Any, product: Optional[Tuple["Value", "Value", bool, bool]] = None) -> "Value":
        return Value(self, self._tell(function, *given), product)

    def _variable(self, function: Any, name: str, shape: Sequence[int]) -> "Value":
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        dims = (ctypes.c_int64 * max(len(sizes), 1))(*(whole(size, f"{name}: shape", 64) for size in sizes))
        return self._value(function, text(name, "name"), len(sizes), dims)

    def param(self, name: str, shape: Sequence[int]) -> "Value":
        """A parameter: trained, saved, set and read by this name."""
        return self._variable(lib.ebb_param, name, shape)

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> "Value":
        """What a step is given: float32, or int32 for ids and labels."""
        functions = {"float32": lib.ebb_input_f32, "int32": lib.ebb_input_i32}
        if dtype not in functions:
            raise UsageError(f"input {name}: {dtype!r} is neither float32 nor int32")
        return self._variable(functions[dtype], name, shape)

    def state(self, name: str, shape: Sequence[int]) -> "Value":
        """Carried from one step to the next, as carry() says; no gradient flows through it."""
        return self._variable(lib.ebb_state, name, shape)

    def carry(self, state: "Value", value: "Value") -> None:
        """After a step the state holds this value."""
        self._tell(lib.ebb_carry, self._own(state), self._own(value))

    def loss(self, value: "Value") -> None:
        """What is trained: one number, float32 [1]."""
        self._tell(lib.ebb_loss, self._own(value))
        self.has_loss = True

    def output(self, name: str, value: "Value") -> None:
        """A computed value that can be read by this name after a step."""
        self._tell(lib.ebb_output, text(name, "name"), self._own(value))

    def gradient(self, param: "Value") -> None:
        """The parameter's gradient, before clipping, can be read as "grad." and its name."""
        self._tell(lib.ebb_gradient, self._own(param))

    @contextlib.contextmanager
    def layer(self, name: str) -> Iterator[None]:
        """A label of what is added inside, for plans and messages."""
        label = text(name, "layer")
        self._layers.append(label)
        self._tell(lib.ebb_layer, label)
        try:
            yield
        finally:
            self._layers.pop()
            self._context.alone(lib.ebb_layer, self._handle, self._layers[-1])

    @contextlib.contextmanager
    def time(self, step: int) -> Iterator[None]:
        """The time step of what is added inside."""
        self._tell(lib.ebb_time, whole(step, "time"))
        try:
            yield
        finally:
            self._context.alone(lib.ebb_time, self._handle, -1)

    def plan(self, memory: Size = None, **options: Any) -> "Plan":
        """What compiling would take, without taking it. Options as those of compile()."""
        from .plan import plan_graph

        return plan_graph(self, memory, options)

    def curve(self, memory: Size = None, **options: Any) -> "Drawing":
        """Time against memory: every plan worth taking, as a picture."""
        from .plan import draw_graph

        return draw_graph(self, memory, options, Picture.CURVE)

    def _own(self, value: "Value") -> int:
        if not isinstance(value, Value):
            raise UsageError(f"{type(value).__name__} is no value of a graph")
        if value.graph is not self:
            raise UsageError("a value of another graph")
        return value._number


class Value:
    """A tensor of a graph: float32 or int32, of a fixed shape. `+ - * / @ **2`, `.T` and slices make new ones."""

    __array_ufunc__ = None  # NumPy leaves operators to this class

    def __init__(self, graph: Graph, number: int, product: Optional[Tuple["Value", "Value", bool, bool]] = None) -> None:
        self.graph = graph
        self._at = number
        self._product = product  # a, b, whether each is transposed: a sum with it is one op

    @property
    def _number(self) -> int:
        return self._at

    @property
    def _shape(self) -> ebb_shape:
        out = ebb_shape()
        self.graph._context.call(lib.ebb_value_shape, self.graph._handle, self._number, ctypes.byref(out))
        return out

    @property
    def shape(self) -> Tuple[int, ...]:
        """Its sizes."""
        return dims_of(self._shape)

    @property
    def dtype(self) -> str:
        """float32 or int32."""
        return NAMES[Dtype(self._shape.dtype)]

    def __repr__(self) -> str:
        return f"Value({self.dtype}{list(self.shape)})"

    def _emit(self, function: Any, *operands: Any) -> "Value":
        numbers = [self.graph._own(operand) if isinstance(operand, Value) else operand for operand in operands]
        return self.graph._value(function, *numbers)

    @property
    def T(self) -> "Value":
        """Transposed, of a matrix; in a product nothing is moved."""
        return Transposed(self)

    def __matmul__(self, other: "Value") -> "Value":
        return _matmul(self, other, None)

    def __add__(self, other: "Value") -> "Value":
        if not isinstance(other, Value):
            return NotImplemented
        for product, plus in ((self, other), (other, self)):
            shape = plus.shape
            if product._product is not None and (shape == product.shape or (len(shape) == 1 and shape[0] == product.shape[-1])):
                return _matmul(product._product[0], product._product[1], plus, product._product[2:])
        if self.shape != other.shape and 1 in (len(self.shape), len(other.shape)):
            x, row = (self, other) if len(other.shape) == 1 else (other, self)
            return x._emit(lib.ebb_add_row, x, row)
        return self._emit(lib.ebb_add, self, other)

    def __sub__(self, other: "Value") -> "Value":
        if not isinstance(other, Value):
            return NotImplemented
        return self._emit(lib.ebb_sub, self, other) if self.shape == other.shape else self + -other

    def __mul__(self, other: Union["Value", Number]) -> "Value":
        if isinstance(other, Value):
            return self._emit(lib.ebb_mul, self, other)
        if not _is_number(other):
            return NotImplemented
        return self._emit(lib.ebb_scale, self, float(other))

    def __rmul__(self, other: Number) -> "Value":
        return self * other

    def __truediv__(self, other: Number) -> "Value":
        if not _is_number(other):
            return NotImplemented
        return self * (1.0 / other)

    def __neg__(self) -> "Value":
        return self * -1.0

    def __pow__(self, power: int) -> "Value":
        if power != 2:
            return NotImplemented
        return self * self

    def __getitem__(self, index: Union[slice, Tuple[slice, ...]]) -> "Value":
        value: Value = self
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) > len(self.shape) or not all(isinstance(part, slice) for part in parts):
            raise UsageError(f"a value is sliced by ranges, at most one for each of its {len(self.shape)} axes")
        for axis, part in enumerate(parts):
            begin, end, step = part.indices(self.shape[axis])
            if step != 1 or end <= begin:
                raise UsageError(f"axis {axis}: ranges are not empty and have no step")
            if end - begin != self.shape[axis]:
                value = value._emit(lib.ebb_slice, value, axis, begin, end - begin)
        return value


class Transposed(Value):
    """`x.T`: only where something other than a product reads it, it is made."""

    def __init__(self, of: Value) -> None:
        super().__init__(of.graph, EBB_NO_VALUE)
        if len(of.shape) != 2:
            raise UsageError(f"T: a value of shape {list(of.shape)} is no matrix")
        self.of = of

    @property
    def _number(self) -> int:
        if self._at == EBB_NO_VALUE:
            self._at = self.of._emit(lib.ebb_transpose, self.of)._number
        return self._at

    @property
    def T(self) -> Value:
        return self.of


def _matmul(a: Value, b: Value, plus: Optional[Value], turned: Optional[Tuple[bool, bool]] = None) -> Value:
    """plus + a b, each of them as it lies or transposed."""
    if not isinstance(b, Value):
        return NotImplemented
    if turned is None:
        turned = (isinstance(a, Transposed), isinstance(b, Transposed))
        a, b = (x.of if isinstance(x, Transposed) else x for x in (a, b))
    graph, product = a.graph, (a, b, *turned) if plus is None else None
    number = graph._own(plus) if plus is not None else EBB_NO_VALUE
    if not turned[0] and turned[1]:
        return graph._value(lib.ebb_linear, graph._own(a), graph._own(b), number, product=product)
    return graph._value(lib.ebb_matmul, number, graph._own(a), graph._own(b), int(turned[0]), int(turned[1]), product=product)
