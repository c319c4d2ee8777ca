"""What a plan holds, and pictures that show themselves in a notebook. The library draws them: they are those of `ebb plan --svg`."""
from __future__ import annotations

import contextlib
import ctypes
import html
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Union

from ._api import Kind, Optimizer, Picture, Reduce, ebb_options, ebb_plan_info, ebb_text_fn
from ._errors import BudgetError, UsageError
from ._given import number, text, whole
from ._native import lib
from ._sizes import Size, shown, size

if TYPE_CHECKING:
    from .graph import Graph

_OPTIMIZERS = {None: Optimizer.FORWARD, "forward": Optimizer.FORWARD, "sgd": Optimizer.SGD, "adam": Optimizer.ADAM, "adamw": Optimizer.ADAMW}
_REDUCES = {"slices": Reduce.SLICES, "copies": Reduce.COPIES, "central": Reduce.CENTRAL, "auto": Reduce.AUTO}
_NUMBERS = ("momentum", "beta1", "beta2", "eps", "weight_decay", "clip")


class Drawing:
    """A picture as SVG, which a notebook shows."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Union[str, Path]) -> None:
        """Writes it as a file."""
        Path(path).write_text(self.svg, encoding="utf8")

    def __repr__(self) -> str:
        return f"Drawing({len(self.svg)} bytes of SVG)"


def collect(call: Callable[[Any], None]) -> str:
    """The text that a function of the library gives, which is called with what collects it."""
    parts: List[bytes] = []

    def keep(user: Any, piece: int, count: int) -> int:
        parts.append(ctypes.string_at(piece, count))
        return 0

    call(ebb_text_fn(keep))
    return b"".join(parts).decode("utf8", "replace")


def native_options(memory: Size, options: Mapping[str, Any], trains: bool) -> ebb_options:
    """Options of compile() as the library has them."""
    out: ebb_options = lib.ebb_options_default()
    known = {"optimizer", "threads", "shards", "disable", "device", "ranks", "stages", "reduce", *_NUMBERS}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(f"there is no option {unknown[0]!r}; there are memory, {', '.join(sorted(known))}")
    optimizer = options.get("optimizer", "sgd" if trains else None)
    if optimizer not in _OPTIMIZERS:
        raise UsageError(f"there is no optimizer {optimizer!r}; there are sgd, adam, adamw, and None to compute only")
    out.optimizer = int(_OPTIMIZERS[optimizer])
    out.memory = size(memory)
    out.threads = whole(options.get("threads") or 0, "threads")
    out.shards = whole(options.get("shards") or 0, "shards")
    disable = options.get("disable")
    out.disable = text(disable if isinstance(disable, str) else ",".join(disable), "disable") if disable else None
    out.device = text(options["device"], "device") if options.get("device") else None
    ranks, reduce = options.get("ranks"), options.get("reduce", "slices")
    if reduce not in _REDUCES:
        raise UsageError(f"there is no reduce {reduce!r}; there are {', '.join(_REDUCES)}")
    out.ranks = ranks._handle if ranks is not None else None
    out.stages = whole(options.get("stages") or 0, "stages")
    out.reduce = int(_REDUCES[reduce])
    for name in _NUMBERS:
        if name in options:
            setattr(out, name, number(options[name], name))
    return out


@dataclass
class Plan:
    """Bytes and seconds of a step. In a notebook it shows who holds which byte when."""

    peak_bytes: int
    least_bytes: int
    keep_all_bytes: int
    budget_bytes: int
    bytes_by_kind: Dict[str, int]
    seconds_per_step: float
    nodes: int
    threads: int
    hash: int
    reduce: str  # how gradients are shared, never "auto": of several processes
    _draw: Optional[Callable[[], Drawing]] = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_draw": None}  # its numbers can go anywhere; what draws it needs the graph

    def picture(self) -> Drawing:
        """The bytes over one step, by layer and kind."""
        if self._draw is None:
            raise UsageError("there is a picture of the plan of one graph only")
        return self._draw()

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{html.escape(kind)}</td><td style='text-align:right'>{shown(count)}</td></tr>"
                       for kind, count in self.bytes_by_kind.items() if count)
        head = (f"<p><b>{shown(self.peak_bytes)}</b> of {shown(self.budget_bytes)}; least budget {shown(self.least_bytes)}, keeping all "
                f"{shown(self.keep_all_bytes)}; {self.seconds_per_step * 1e3:.3g} ms a step predicted, {self.nodes} nodes, {self.threads} threads</p>")
        picture = self._draw()._repr_svg_() if self._draw is not None else ""
        return f"<div>{head}<table>{rows}</table>{picture}</div>"


def plan_of(info: ebb_plan_info, draw: Optional[Callable[[], Drawing]] = None) -> Plan:
    """The same as Python has it."""
    kinds = {lib.ebb_kind_name(i).decode(): int(info.bytes_by_kind[i]) for i in range(int(Kind.KINDS))}
    return Plan(info.peak_bytes, info.least_bytes, info.keep_all_bytes, info.budget_bytes, kinds, info.seconds_per_step, info.nodes,
                info.threads, info.hash, next(name for name, way in _REDUCES.items() if int(way) == info.reduce), draw)


def draw_graph(graph: "Graph", memory: Size, options: Mapping[str, Any], picture: Picture = Picture.STEP) -> Drawing:
    """A picture of a graph's plan."""
    native = native_options(memory, options, graph.has_loss)

    def draw(fn: Any) -> None:
        with contextlib.suppress(BudgetError):  # then it is the picture of the smallest plan
            graph._context.call(lib.ebb_graph_draw, graph._handle, ctypes.byref(native), int(picture), None, fn, None)

    with graph._context.listening():
        return Drawing(collect(draw))


def plan_graph(graph: "Graph", memory: Size, options: Mapping[str, Any]) -> Plan:
    """What compiling would take."""
    native, info = native_options(memory, options, graph.has_loss), ebb_plan_info()
    with graph._context.listening():
        graph._context.call(lib.ebb_graph_plan, graph._handle, ctypes.byref(native), ctypes.byref(info))
    return plan_of(info, lambda: draw_graph(graph, memory, options))
