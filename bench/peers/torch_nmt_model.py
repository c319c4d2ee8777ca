#!/usr/bin/env python3
"""The translation model of ebb (src/model/nmt.h) in PyTorch, and what a run's folder holds of it.

Shared by the peers that translate and train, and by tools/golden/nmt.py. Letters: B sentences, K
hypotheses of each (1 in training), S and T positions of source and target, E embed, H hidden.

By itself it gives the perplexity of a run on two texts, which must be that of ebb:
  bench/peers/torch_nmt_model.py RUN SRC TGT
"""
import math
import re
import sys
from collections import Counter
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

UNK, EOS, IGNORED = 0, 1, -1
CELLS = {"lstm": (nn.LSTM, nn.LSTMCell), "gru": (nn.GRU, nn.GRUCell)}


class Source:
    """What decoder steps read of B sources: memory and keys [B, S, H], padding [B, 1, S]."""

    def __init__(self, memory, keys, padding, start=None):
        """start: with init_decoder, of every decoder layer what it starts from, a list of [B, H]."""
        self.memory, self.keys, self.padding, self.start = memory, keys, padding, start

    def take(self, rows):
        """Those of some of the sentences."""
        start = [[x[rows] for x in layer] for layer in self.start] if self.start else None
        return Source(self.memory[rows], self.keys[rows], self.padding[rows], start)


class Translator(nn.Module):
    """sizes: a dictionary with the settings of `ebb train nmt` (see settings()) and both vocabularies' sizes."""

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes
        layers, cell = CELLS[sizes["cell"]]
        embed, hidden = sizes["embed"], sizes["hidden"]
        self.tgt_embed = nn.Embedding(sizes["tgt_vocab"], embed)
        self.src_embed = self.tgt_embed if sizes["tie_src"] else nn.Embedding(sizes["src_vocab"], embed)
        self.enc = layers(embed, hidden // 2, bidirectional=True)
        dropout, upper = sizes.get("dropout", 0.0), sizes["enc_layers"] - 1
        self.apart = any(sizes.get(name) for name in ("bidirectional", "residual", "init_decoder"))
        if self.apart:  # layer by layer, since something is done between them or with each
            half = hidden // 2 if sizes.get("bidirectional") else hidden
            self.more = nn.ModuleList(layers(hidden, half, bidirectional=half < hidden) for _ in range(upper))
        elif upper:  # PyTorch warns of dropout where there is no layer to drop between
            self.upper = layers(hidden, hidden, upper, dropout=dropout if upper > 1 else 0)
        first = embed + hidden * sizes["feed"]
        self.dec = nn.ModuleList(cell(hidden if l else first, hidden) for l in range(sizes["dec_layers"]))
        self.attn = nn.ModuleDict({"key": nn.Linear(hidden, hidden, bias=False)})
        if sizes["attention"] == "mlp":
            self.attn["query"] = nn.Linear(hidden, hidden)
            self.attn["score"] = nn.Linear(hidden, 1, bias=False)
        if sizes["layer_norm"]:
            self.attn["norm"] = nn.LayerNorm(hidden)
        self.mix = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, sizes["tgt_vocab"])
        self.drop = nn.Dropout(dropout)
        if sizes["tie"]:
            self.out.weight = self.tgt_embed.weight

    @torch.compiler.disable
    def encode(self, src, lengths):
        """src [S, B], lengths [B]. Stays PyTorch's own kernel, at which torch.compile would give up."""
        if self.apart:
            return self.encode_apart(src, lengths)
        x, deep = self.drop(self.src_embed(src)), self.sizes["enc_layers"] > 1
        if int(lengths.min()) == len(src):  # no padding: packing would only take time
            memory = self.enc(x)[0]
            memory = self.upper(self.drop(memory))[0] if deep else memory
            memory = memory.transpose(0, 1).contiguous()
        else:
            packed = self.enc(pack_padded_sequence(x, lengths, enforce_sorted=False))[0]
            packed = self.upper(packed._replace(data=self.drop(packed.data)))[0] if deep else packed
            memory = pad_packed_sequence(packed, batch_first=True)[0]
        padding = torch.arange(src.shape[0])[None, None] >= lengths[:, None, None]
        return Source(memory, self.attn["key"](memory), padding)

    def encode_apart(self, src, lengths):
        """The same, layer by layer; final states [ways, B, H / ways] of a layer are joined."""
        packed = pack_padded_sequence(self.drop(self.src_embed(src)), lengths, enforce_sorted=False)
        finals = []
        for layer, rnn in enumerate([self.enc, *self.more]):
            if layer:
                packed = packed._replace(data=self.drop(packed.data))
            before, (packed, last) = packed, rnn(packed)
            finals.append([torch.cat(list(x), 1) for x in (last if isinstance(last, tuple) else (last,))])
            if layer and self.sizes.get("residual"):
                packed = packed._replace(data=packed.data + before.data)
        memory = pad_packed_sequence(packed, batch_first=True, total_length=src.shape[0])[0]
        padding = torch.arange(src.shape[0])[None, None] >= lengths[:, None, None]
        start = [finals[min(l, len(finals) - 1)] for l in range(len(self.dec))] if self.sizes.get("init_decoder") else None
        return Source(memory, self.attn["key"](memory), padding, start)

    def norm(self, x):
        return self.attn["norm"](x) if self.sizes["layer_norm"] else x

    def attend(self, source, h):
        """h [B, K, H] to the context [B, K, H]."""
        if self.sizes["attention"] == "dot":
            scores = torch.bmm(self.norm(h), source.keys.transpose(1, 2))
        else:
            x = source.keys[:, None] + self.attn["query"](h)[:, :, None]  # [B, K, S, H]
            scores = self.attn["score"](torch.tanh(self.norm(x))).squeeze(-1)
        return torch.bmm(F.softmax(scores.masked_fill(source.padding, -torch.inf), 2), source.memory)

    def start(self, rows, source=None):
        """The state of the first step: of every layer, then the vector that is fed."""
        zero = self.mix.bias.new_zeros(rows, self.sizes["hidden"])
        if source is not None and source.start:
            return [list(layer) for layer in source.start] + [[zero]]
        of_layer = [zero] * (2 if self.sizes["cell"] == "lstm" else 1)
        return [of_layer] * len(self.dec) + [[zero]]

    def step(self, source, word, state):
        """word [B*K, E]: the new state; its last vector [B*K, H] is what the projection reads."""
        fed = state[-1][0]
        x = torch.cat((word, fed), 1) if self.sizes["feed"] else word
        after = []
        for layer, cell in enumerate(self.dec):
            x = self.drop(x) if layer else x
            before = state[layer]
            of_layer = cell(x, tuple(before)) if len(before) > 1 else (cell(x, before[0]),)
            after.append(list(of_layer))
            x = of_layer[0] + x if layer and self.sizes.get("residual") else of_layer[0]
        h = x.view(source.memory.shape[0], -1, x.shape[1])
        mixed = torch.tanh(self.mix(torch.cat((h, self.attend(source, h)), 2)))
        return after + [[mixed.flatten(0, 1)]]

    def decode(self, source, tgt_in):
        """tgt_in [T, B] to what the projection reads, [T, B, H]."""
        state, mixed = self.start(tgt_in.shape[1], source), []
        for word in self.drop(self.tgt_embed(tgt_in)):
            state = self.step(source, word, state)
            mixed.append(state[-1][0])
        return torch.stack(mixed)

    def forward(self, src, lengths, tgt_in, tgt_out):
        """The mean loss of the labels tgt_out [T, B] that are not padding; no other is projected."""
        mixed, real = self.decode(self.encode(src, lengths), tgt_in), tgt_out >= 0
        logits = self.out(self.drop(mixed[real]))
        return F.cross_entropy(logits, tgt_out[real], label_smoothing=self.sizes["smoothing"] if self.training else 0.0)


def ebb_name(name):
    """The name of a parameter in src/model/nmt.h."""
    parts = name.split(".")
    if parts[0] == "more":
        return f"enc.{parts[2].replace('_l0', f'_l{int(parts[1]) + 1}')}"
    if parts[0] == "upper":  # its layer i is the encoder's layer i + 1
        what, layer = parts[1].rsplit("_l", 1)
        return f"enc.{what}_l{int(layer) + 1}"
    return f"dec.{parts[2]}_l{parts[1]}" if parts[0] == "dec" else name


def parameters(model):
    """(name, parameter) with ebb's names; a score's weight [1, H] is [H] there."""
    return [(ebb_name(name), p) for name, p in model.named_parameters()]


# ---- a run's folder ----

def settings(folder):
    """The run's `config` with names as in Python and numbers as numbers."""
    found = {}
    for line in (folder / "config").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            key, value = (part.strip() for part in line.split("=", 1))
            found[key.replace("-", "_")] = value
    for name in ("hidden", "enc_layers", "dec_layers", "max_len"):
        found[name] = int(found[name])
    for name in ("feed", "layer_norm", "tie", "tie_src", "bidirectional", "residual", "init_decoder"):
        found[name] = found.get(name) == "true"
    found["embed"] = found["hidden"] if found["embed"] == "hidden" else int(found["embed"])
    found["dropout"], found["smoothing"] = float(found["dropout"]), float(found["smoothing"])
    return found


def read_vocabulary(path):
    """The tokens of docs/formats.md, as bytes, by id."""
    def plain(match):
        code = match.group(1)
        return {b"\\": b"\\", b"s": b" "}.get(code) or bytes([int(code[1:], 16)])

    return [re.sub(rb"\\(\\|s|x[0-9A-Fa-f]{2})", plain, line) for line in path.read_bytes().splitlines()]


class Run:
    """Model, settings and vocabularies (lists of bytes) of a folder that `ebb train nmt` made."""

    def __init__(self, folder):
        from safetensors.torch import load_file  # noqa: PLC0415  (golden files are made without it)
        folder = Path(folder)
        names = ("vocab.src.txt", "vocab.tgt.txt") if (folder / "vocab.src.txt").exists() else ("vocab.txt",) * 2
        self.source, self.target = (read_vocabulary(folder / name) for name in names)
        self.settings = settings(folder)
        self.model = Translator({**self.settings, "src_vocab": len(self.source), "tgt_vocab": len(self.target)})
        weights = folder / "best.safetensors"
        tensors = load_file(weights if weights.exists() else folder / "last.safetensors")
        own = parameters(self.model)
        if {name for name, _ in own} != tensors.keys():
            raise SystemExit(f"{folder}: weights {sorted({name for name, _ in own} ^ tensors.keys())} on one side only")
        with torch.no_grad():
            for name, p in own:
                p.copy_(tensors[name].view_as(p))
        self.model.eval()


# ---- texts ----

def read_lines(path):
    """The words of every line, as bytes."""
    text = Path(path).read_bytes().removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    return [line.split() for line in text.split(b"\n")]


def make_vocabulary(lines, limit):
    """<unk>, <eos>, then words by descending count, ties in byte order."""
    counts = Counter(word for line in lines for word in line)
    words = sorted(counts.keys() - {b"<unk>", b"<eos>"}, key=lambda word: (-counts[word], word))
    return [b"<unk>", b"<eos>", *words][:limit]


def ids_of(lines, vocabulary, most):
    """Ids of every line, <eos> last; of a longer line the first `most` words."""
    known = {word: number for number, word in enumerate(vocabulary)}
    return [[known.get(word, UNK) for word in line[:most]] + [EOS] for line in lines]


def padded(sentences, filler):
    """[longest, B]"""
    rows = [torch.tensor(sentence) for sentence in sentences]
    return nn.utils.rnn.pad_sequence(rows, padding_value=filler)


def source_batch(sources):
    """src [S, B] and lengths [B]."""
    return padded(sources, EOS), torch.tensor([len(source) for source in sources])


def pair_batch(pairs):
    """What Translator.forward takes."""
    sources, targets = zip(*pairs)
    return (*source_batch(sources), padded([[EOS, *target[:-1]] for target in targets], EOS), padded(targets, IGNORED))


def read_pairs(texts, vocabularies, most):
    """(source, target) of all lines that have words on both sides, and not more than `most`."""
    lines = list(zip(*(read_lines(text) for text in texts), strict=True))
    used = [pair for pair in lines if all(0 < len(side) <= most for side in pair)]
    return list(zip(*(ids_of(side, vocabulary, most) for side, vocabulary in zip(zip(*used), vocabularies))))


@torch.inference_mode()
def perplexity(run, texts, batch=64):
    """Of the targets' tokens, <eos> included, as valid_perplexity in metrics.jsonl."""
    pairs = read_pairs(texts, (run.source, run.target), run.settings["max_len"])
    total = count = 0
    for first in range(0, len(pairs), batch):
        args = pair_batch(pairs[first:first + batch])
        words = int((args[-1] >= 0).sum())
        total += run.model(*args).item() * words
        count += words
    return math.exp(total / count)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__.strip().splitlines()[-1].strip())
    print(perplexity(Run(sys.argv[1]), sys.argv[2:]))
