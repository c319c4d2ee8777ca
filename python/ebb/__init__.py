"""ebb trains models in the memory you have, from Python.

A model is an expression; compile() turns it into a program that fits a budget in bytes:

    import ebb
    g = ebb.Graph()
    x, y = g.input("x", (64, 2)), g.input("y", (64, 1))
    h = ebb.tanh(x @ g.param("w", (32, 2)).T + g.param("b", (32,)))
    d = h @ g.param("v", (1, 32)).T + g.param("c", (1,)) - y
    program = ebb.compile(ebb.mean(d * d), memory="1M", optimizer="adam")
    for step in range(1000):
        loss = program.step(lr=0.01, x=xs, y=ys)

A run is a folder that `ebb train` made: Run("folder") translates, generates, scores and predicts. docs/python.md goes through it.
"""
from ._api import Status
from ._context import Context, current as context
from ._errors import (BudgetError, DataError, DivergedError, EbbError, InputOutputError, InternalError, LostError, ModelError,
                      NoMemoryError, StoppedError, UsageError)
from ._native import version
from .device import Device, devices
from .graph import Graph, Value
from .ops import (add_each, concat, copy, cross_entropy, dot_each, dot_rows, dropout, embed, gru_cell, join, layer_norm, linear,
                  lstm_cell, mask_rows, mask_softmax, mean, relu, sigmoid, softmax, stack, sum, sum_each, tanh, weighted_sum)
from .plan import Drawing, Plan
from .program import Program, compile, compile_all
from .ranks import Ranks
from .run import Prediction, Run, Score, Translation, train

__version__ = version()
__all__ = [
    "BudgetError", "Context", "DataError", "Device", "DivergedError", "Drawing", "EbbError", "Graph", "InputOutputError", "InternalError", "LostError",
    "ModelError", "NoMemoryError", "Plan", "Prediction", "Program", "Ranks", "Run", "Score", "Status", "StoppedError", "Translation", "UsageError", "Value",
    "add_each", "compile", "compile_all", "concat", "context", "copy", "cross_entropy", "devices", "dot_each", "dot_rows", "dropout", "embed", "gru_cell", "join",
    "layer_norm", "linear", "lstm_cell", "mask_rows", "mask_softmax", "mean", "relu", "sigmoid", "softmax", "stack", "sum", "sum_each", "tanh", "train",
    "version", "weighted_sum",
]
