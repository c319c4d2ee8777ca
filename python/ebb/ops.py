"""Functions of values. What each computes is in docs/api.md and, exactly, in include/ebb.h."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence, Tuple

from ._api import EBB_NO_VALUE
from ._errors import UsageError
from ._given import number, text, whole
from ._native import lib
from .graph import Value


def _graph_of(values: Sequence[Value]) -> Any:
    if not values or not all(isinstance(value, Value) for value in values):
        raise UsageError("at least one value of a graph is needed")
    return values[0].graph


def embed(table: Value, ids: Value) -> Value:
    """Rows of a table [V,E] chosen by int32 ids [R]: [R,E]."""
    return table._emit(lib.ebb_embed, table, ids)


def linear(x: Value, weight: Value, plus: Optional[Value] = None) -> Value:
    """plus + x weight^T; plus is a bias [N] or a sum so far: what `x @ weight.T + plus` is."""
    return x._emit(lib.ebb_linear, x, weight, plus if plus is not None else EBB_NO_VALUE)


def tanh(x: Value) -> Value:
    """Element by element."""
    return x._emit(lib.ebb_tanh, x)


def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x)), element by element."""
    return x._emit(lib.ebb_sigmoid, x)


def relu(x: Value) -> Value:
    """max(x, 0), element by element."""
    return x._emit(lib.ebb_relu, x)


def softmax(x: Value) -> Value:
    """Over the last axis."""
    return x._emit(lib.ebb_softmax, x)


def dropout(x: Value, p: float, site: str) -> Value:
    """Zeroes elements with probability p and scales the rest; `site` is a stable name of the place. Nothing is kept of it."""
    return x._emit(lib.ebb_dropout, x, number(p, "dropout: p"), text(site, "dropout: site"))


def lstm_cell(z: Value, c: Value) -> Tuple[Value, Value]:
    """Pre-activations [B,4H] (gates i f g o) and cells [B,H] to h and c [B,H]."""
    h, c_next = ctypes.c_int32(EBB_NO_VALUE), ctypes.c_int32(EBB_NO_VALUE)
    graph = z.graph
    graph._tell(lib.ebb_lstm_cell, graph._own(z), graph._own(c), ctypes.byref(h), ctypes.byref(c_next))
    return Value(graph, h.value), Value(graph, c_next.value)


def gru_cell(gx: Value, gh: Value, h: Value) -> Value:
    """Pre-activations of input and state [B,3H] (gates r z n) and the state [B,H] to the next state."""
    return gx._emit(lib.ebb_gru_cell, gx, gh, h)


def join(values: Sequence[Value], axis: int = 0) -> Value:
    """Values one after the other along an axis."""
    graph = _graph_of(values)
    numbers = (ctypes.c_int32 * len(values))(*(graph._own(value) for value in values))
    rank, axis = len(values[0].shape), whole(axis, "join: axis")
    found: Value = graph._value(lib.ebb_join, axis if axis >= 0 else axis + rank, numbers, len(values))
    return found


def stack(values: Sequence[Value]) -> Value:
    """Along the first axis: of S matrices [B,H] [S*B,H]."""
    return join(values, 0)


def concat(values: Sequence[Value]) -> Value:
    """Along the last axis."""
    return join(values, -1)


def copy(x: Value) -> Value:
    """The same in bytes of its own."""
    return x._emit(lib.ebb_copy, x)


def add_each(stack: Value, rows: Value) -> Value:
    """rows [B,H] added to every block of a stack [S*B,H]."""
    return stack._emit(lib.ebb_add_each, stack, rows)


def sum_each(stack: Value, batch: int) -> Value:
    """The sum of all blocks of a stack: [B,H]."""
    return stack._emit(lib.ebb_sum_each, stack, whole(batch, "sum_each: batch"))


def dot_rows(stack: Value, row: Value, batch: int) -> Value:
    """Scores [S,B]: each row of the stack times a list [H]."""
    return stack._emit(lib.ebb_dot_rows, stack, row, whole(batch, "dot_rows: batch"))


def dot_each(stack: Value, rows: Value) -> Value:
    """Scores [S,B]: each row of the stack times its row of rows [B,H]."""
    return stack._emit(lib.ebb_dot_each, stack, rows)


def mask_softmax(scores: Value, lengths: Value) -> Value:
    """Softmax of scores [S,B] over the positions below int32 lengths [B]."""
    return scores._emit(lib.ebb_mask_softmax, scores, lengths)


def weighted_sum(weights: Value, stack: Value) -> Value:
    """The sum of all blocks of a stack, each row times its weight [S,B]: [B,H]."""
    return weights._emit(lib.ebb_weighted_sum, weights, stack)


def mask_rows(x: Value, lengths: Value, position: int) -> Value:
    """x [B,H] with those rows zero whose length is not above the position."""
    return x._emit(lib.ebb_mask_rows, x, lengths, whole(position, "mask_rows: position"))


def layer_norm(x: Value, gain: Value, bias: Value, eps: float = 1e-5, batch: int = 0) -> Value:
    """Rows brought to mean 0 and variance 1, times gain plus bias."""
    return x._emit(lib.ebb_layer_norm, x, gain, bias, number(eps, "layer_norm: eps"), whole(batch, "layer_norm: batch"))


def sum(x: Value) -> Value:
    """Of all elements: [1]."""
    return x._emit(lib.ebb_sum, x)


def mean(x: Value) -> Value:
    """Of all elements: [1]."""
    return x._emit(lib.ebb_mean, x)


def cross_entropy(logits: Value, labels: Value, smooth: float = 0.0) -> Value:
    """Mean negative log likelihood of int32 labels [R] under softmax of logits [R,V], in nats; negative labels do not count."""
    if smooth:
        return logits._emit(lib.ebb_cross_entropy_smooth, logits, labels, number(smooth, "cross_entropy: smooth"))
    return logits._emit(lib.ebb_cross_entropy, logits, labels)
