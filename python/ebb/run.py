"""Runs: models that the command trains into folders, used through the library."""
from __future__ import annotations

import codecs
import ctypes
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, Union, overload

from . import command
from ._api import ebb_generate_options, ebb_plan_info, ebb_run_options, ebb_score, ebb_text_fn, ebb_translate_options, ebb_translation_fn
from ._arrays import bytes_of
from ._context import Held, current
from ._errors import DataError, EbbError, UsageError
from ._given import Path as Folder, number, path as path_of, text, whole
from ._native import lib
from ._sizes import Size, size
from .plan import Drawing, Plan, collect, plan_of


@dataclass
class Translation:
    """One of the translations of a line; natural logarithms."""

    text: str
    log_prob: float
    score: float
    ended: bool  # False: it was ended for its length


@dataclass
class Score:
    """How likely a line is. log_prob is NaN where the model cannot read so long a line."""

    log_prob: float
    tokens: int
    unknown: int

    @property
    def perplexity(self) -> float:
        """Of its tokens, the line's end included."""
        return math.exp(-self.log_prob / self.tokens) if not math.isnan(self.log_prob) else math.nan


@dataclass
class Prediction:
    """What an image shows, the likeliest first: names (or numbers) of classes, and how likely each is."""

    classes: List[str]
    probabilities: List[float]

    @property
    def best(self) -> str:
        """The likeliest class."""
        return self.classes[0]


def _lines(lines: Iterable[str], what: str) -> List[bytes]:
    if isinstance(lines, (str, bytes)) or not isinstance(lines, Iterable):
        raise UsageError(f"{what}: a list of lines is needed, not {'one text' if isinstance(lines, (str, bytes)) else type(lines).__name__}")
    return [text(line, f"{what}: line {i}") for i, line in enumerate(lines)]


def _array(texts: List[bytes]) -> "ctypes.Array[ctypes.c_char_p]":
    return (ctypes.c_char_p * max(len(texts), 1))(*texts)


UNKNOWN = ("replace", "ban", "keep")  # as ebb_unk has them


class Run(Held):
    """A run in a folder, opened to be used under a budget: memory (as it was trained in, if not given), threads, and how many lines or images
    at once; of its weights the best, the "last" or those of a file; a device of devices(), or the CPU. What a use needs is planned at its first
    call and kept until another use.

    In a notebook it shows how its training went."""

    def __init__(self, folder: Folder, memory: Size = None, threads: int = 0, batch: int = 0, weights: Union[str, "os.PathLike[str]"] = "best",
                 device: Optional[str] = None) -> None:
        self.folder = os.fsdecode(path_of(folder, "folder"))
        self._context = current()
        options: ebb_run_options = lib.ebb_run_options_default()
        options.memory, options.threads, options.batch = size(memory), whole(threads, "threads"), whole(batch, "batch", 64)
        options.weights = path_of(weights, "weights")
        options.device = text(device, "device") if device else None
        handle = ctypes.c_void_p()
        self._context.call(lib.ebb_run_open, self._context.handle, path_of(folder, "folder"), ctypes.byref(options), ctypes.byref(handle))
        self._handle: Optional[ctypes.c_void_p] = handle
        self._context.adopt()

    def close(self) -> None:
        """Gives its memory back; also done when nobody needs it."""
        if getattr(self, "_handle", None):
            self._context.free(lib.ebb_run_close, self._handle)
            self._handle = None

    __del__ = close

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise UsageError(f"{self.folder}: the run is closed")
        return self._handle

    # ---- training, by the command ----

    @classmethod
    def train(cls, kind: str, folder: Folder, quiet: bool = False, **options: Any) -> "Run":
        """Trains a run of a kind ("lm", "nmt", "cnn") into the folder, or goes on with it, and opens it. Options are those of `ebb train`:
        train="text.txt", of pairs train=["a.en", "a.de"], valid=..., memory="512M", epochs=10, init="other-run"."""
        command.call("train", kind, quiet=quiet, out=os.fspath(folder), **({"quiet_": True} if quiet else {}), **options)
        return cls(folder)

    def resume(self, quiet: bool = False, **options: Any) -> "Run":
        """Goes on with the training as it was started; what is given (epochs=20) takes the place of what was said then."""
        self.close()
        kind = _kind(self.folder)
        command.call("train", kind, quiet=quiet, config=os.path.join(self.folder, "config"), out=self.folder, **({"quiet_": True} if quiet else {}), **options)
        return Run(self.folder)

    # ---- what it is ----

    @property
    def kind(self) -> str:
        """lm, nmt or cnn."""
        return str(lib.ebb_run_kind(self._open()).decode())

    @property
    def config(self) -> Dict[str, str]:
        """The settings it was trained with, as text."""
        pairs = (line.split("=", 1) for line in Path(self.folder, "config").read_text(encoding="utf8", errors="surrogateescape").splitlines() if "=" in line)
        return {key.strip(): value.strip() for key, value in pairs}

    @property
    def metrics(self) -> List[Dict[str, Any]]:
        """What training measured, line by line."""
        path = Path(self.folder, "metrics.jsonl")
        found: List[Dict[str, Any]] = []
        # What stands behind the last line end is being written.
        for number, line in enumerate(path.read_bytes().split(b"\n")[:-1] if path.exists() else [], 1):
            try:
                found.append(json.loads(line))
            except ValueError:
                raise DataError(f"{path}:{number}: is no line of metrics") from None
        return found

    @property
    def plan(self) -> Plan:
        """Of what is open at the moment; there is none before the first use."""
        info = ebb_plan_info()
        self._context.call(lib.ebb_run_plan, self._open(), ctypes.byref(info))
        return plan_of(info)

    @property
    def measured_bytes(self) -> int:
        """The highest byte of that plan used so far."""
        return int(lib.ebb_run_measured(self._open()))

    def plot(self) -> Drawing:
        """How training went: losses and what validation found, over the steps."""
        return Drawing(collect(lambda fn: self._context.call(lib.ebb_run_draw, self._open(), fn, None)))

    def report(self, path: Folder) -> None:
        """A page about the run, with pictures (`ebb report`)."""
        command.call("report", self.folder, path)

    def _repr_svg_(self) -> Optional[str]:
        try:
            return self.plot()._repr_svg_()
        except EbbError:  # it is closed, was never measured, or its metrics are damaged: there is nothing to show
            return None

    def __repr__(self) -> str:
        return f"Run({self.folder!r}, {self.kind if self._handle is not None else 'closed'})"

    # ---- what it does ----

    @overload
    def translate(self, lines: Iterable[str], beam: int = 5, nbest: None = None, length_penalty: float = 1.0, max_ratio: float = 2.0,
                  unk: str = "replace", others: Sequence[Folder] = ()) -> List[str]: ...

    @overload
    def translate(self, lines: Iterable[str], beam: int = 5, *, nbest: int, length_penalty: float = 1.0, max_ratio: float = 2.0,
                  unk: str = "replace", others: Sequence[Folder] = ()) -> List[List[Translation]]: ...

    def translate(self, lines: Iterable[str], beam: int = 5, nbest: Optional[int] = None, length_penalty: float = 1.0,
                  max_ratio: float = 2.0, unk: str = "replace",
                  others: Sequence[Folder] = ()) -> Union[List[str], List[List[Translation]]]:
        """Translations of lines: the best of each, or with nbest a list of so many with their scores. unk says what becomes of a word that the
        model has not: "replace" it by the source word attended to most, "ban" it, or "keep" it. With others, folders of runs of the same sizes
        and vocabulary, the mean of all their probabilities is followed."""
        if unk not in UNKNOWN:
            raise UsageError(f"translate: unk {unk!r} is none of {', '.join(UNKNOWN)}")
        options: ebb_translate_options = lib.ebb_translate_options_default()
        options.beam, options.nbest = whole(beam, "beam"), 1 if nbest is None else whole(nbest, "nbest")
        options.length_penalty, options.max_ratio = number(length_penalty, "length_penalty"), number(max_ratio, "max_ratio")
        if isinstance(others, (str, bytes)):
            raise UsageError("translate: others: a list of folders is needed, not one")
        options.unk, options.n_others = UNKNOWN.index(unk), len(others)
        options.others = (ctypes.c_char_p * max(len(others), 1))(*(path_of(other, "others") for other in others))
        given = _lines(lines, "translate")
        found: List[List[Translation]] = [[] for _ in given]

        def keep(user: Any, one: Any) -> int:
            t = one.contents
            found[t.line].append(Translation(t.text.decode("utf8", "replace"), t.log_prob, t.score, bool(t.ended)))
            return 0

        with self._context.listening():
            self._context.call(lib.ebb_run_translate, self._open(), _array(given), len(given), ctypes.byref(options), ebb_translation_fn(keep), None)
        if nbest is not None:
            return found
        return [best[0].text for best in found]

    def generate(self, tokens: int = 200, temperature: float = 1.0, seed: int = 1, prompt: str = "",
                 on_text: Optional[Callable[[str], None]] = None, *, top_k: int = 0, top_p: float = 1.0, stop_at_eos: bool = False) -> str:
        """A text that the language model writes; on_text is given it piece by piece as well. Tokens are drawn among the top_k likeliest (0: all), and
        among as few as have the share top_p of the probability together; stop_at_eos ends the text with its first line."""
        options: ebb_generate_options = lib.ebb_generate_options_default()
        options.tokens, options.seed, options.top_k = whole(tokens, "tokens", 64), whole(seed, "seed", 64, signed=False), whole(top_k, "top_k", 64)
        options.temperature, options.top_p = number(temperature, "temperature"), number(top_p, "top_p")
        options.prompt, options.stop_at_eos = text(prompt, "prompt"), int(stop_at_eos)
        parts: List[str] = []
        raised: List[BaseException] = []
        decoder = codecs.getincrementaldecoder("utf8")("replace")  # a token may be a part of a character

        def give(piece: bytes, final: bool = False) -> None:
            parts.append(decoder.decode(piece, final))
            if on_text is not None and parts[-1]:
                on_text(parts[-1])

        def keep(user: Any, piece: int, count: int) -> int:
            try:
                give(ctypes.string_at(piece, count))
            except BaseException as why:  # it cannot pass through the library
                raised.append(why)
            return len(raised)

        with self._context.listening():
            self._context.call(lib.ebb_run_generate, self._open(), ctypes.byref(options), ebb_text_fn(keep), None)
        if raised:
            raise raised[0]
        give(b"", True)
        return "".join(parts)

    def score(self, lines: Iterable[str], sources: Optional[Iterable[str]] = None) -> List[Score]:
        """How likely each line is by itself; of a translation model, as the translation of its source."""
        given, of = _lines(lines, "score"), _lines(sources, "score") if sources is not None else None
        if of is not None and len(of) != len(given):
            raise UsageError(f"score: {len(given)} lines and {len(of)} sources")
        out = (ebb_score * max(len(given), 1))()
        with self._context.listening():
            self._context.call(lib.ebb_run_score, self._open(), _array(of) if of is not None else None, _array(given), len(given), out)
        return [Score(out[i].log_prob, out[i].tokens, out[i].unknown) for i in range(len(given))]

    @property
    def classes(self) -> List[str]:
        """What a net tells apart; numbers where classes have no names."""
        names = (lib.ebb_run_class_name(self._open(), k) for k in range(lib.ebb_run_classes(self._open())))
        return [name.decode("utf8", "replace") if name else str(k) for k, name in enumerate(names)]

    def probabilities(self, images: Any) -> List[List[float]]:
        """How likely images are of each class: a list of files, or an array uint8 [n, height, width, channels] of 1 channel or 3."""
        n_classes, handle = int(lib.ebb_run_classes(self._open())), self._open()
        call: Callable[[Any], None]
        if isinstance(images, (list, tuple)) and all(isinstance(image, (str, os.PathLike)) for image in images):
            count = len(images)
            paths = (ctypes.c_char_p * max(count, 1))(*(path_of(image, "predict") for image in images))
            call = lambda to: self._context.call(lib.ebb_run_predict_files, handle, paths, count, to)
        else:
            found = bytes_of(images, "predict")
            if found.dtype != "uint8" or len(found.shape) != 4:
                raise UsageError(f"predict: an array of {found.dtype} {list(found.shape)}, where uint8 [n, height, width, channels] is needed")
            count, pixels = found.shape[0], ctypes.cast(found.address, ctypes.POINTER(ctypes.c_uint8))
            call = lambda to: self._context.call(lib.ebb_run_predict, handle, pixels, *found.shape, to)
        out = (ctypes.c_double * max(count * n_classes, 1))()
        with self._context.listening():
            call(out)
        return [list(out[i * n_classes:(i + 1) * n_classes]) for i in range(count)]

    def predict(self, images: Any, top: int = 5) -> List[Prediction]:
        """What images show: the `top` likeliest classes of each. Images as probabilities() takes them."""
        if whole(top, "top") < 1:
            raise UsageError(f"predict: top {top}: one class at least")
        names, found = self.classes, []
        for row in self.probabilities(images):
            order = sorted(range(len(row)), key=lambda k: -row[k])[:top]
            found.append(Prediction([names[k] for k in order], [row[k] for k in order]))
        return found


def _kind(folder: str) -> str:
    with Run(folder) as run:
        return run.kind


train = Run.train
