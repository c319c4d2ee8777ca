#!/usr/bin/env python3
"""Writes tests/golden/nmt_*.safetensors: small translation models as PyTorch computes them.

Usage: tools/golden/nmt.py [FOLDER]    (default: tests/golden; needs torch, numpy)

One file a model, read by tests/golden/test_nmt.c. As in lm.py, PyTorch computes in double from
weights that are exact in float32, and the results are rounded once.

  <param>             starting weights, named as in src/model/nmt.h
  data.src            [STEPS, S*B] i32, positions descending by blocks of B; data.src_len [STEPS, B]
  data.tgt_in, .tgt_out  [STEPS, T*B] i32, likewise; label -1 is padding
  logits              [T*B, V] of the first step, rows as data.tgt_in
  loss, grad.<param>  mean loss [1] of the first step, its gradients
  adam.losses         [STEPS] loss before each update; adam.norms: gradient norm before clipping
  adam.<param>        weights after the last update

Cells that are padding hold random words. Sizes, settings and versions are in the file's metadata.
"""
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lm import descending, norm_of, save

STEPS = 4
LR = 0.002
CELLS = {"lstm": (nn.LSTM, nn.LSTMCell), "gru": (nn.GRU, nn.GRUCell)}
SIZES = dict(cell="lstm", attention="mlp", feed=0, layer_norm=0, tie=0, tie_src=0, smoothing=0.0,
             enc_layers=1, dec_layers=1, src_vocab=13, tgt_vocab=11, embed=9, hidden=10, batch=3,
             src_len=5, tgt_len=4)
# clip lies between the norms of the steps: it bites on some of them.
CASES = {
    "nmt_mlp": dict(clip=1.64),
    "nmt_mlp_feed": dict(feed=1, smoothing=0.1, clip=1.58),
    "nmt_dot": dict(attention="dot", clip=1.4),
    "nmt_dot_norm": dict(attention="dot", feed=1, layer_norm=1, tie_src=1, src_vocab=11, clip=1.7),
    "nmt_norm": dict(feed=1, layer_norm=1, tie=1, embed=12, hidden=12, clip=3.0),
    "nmt_gru": dict(cell="gru", feed=1, enc_layers=2, dec_layers=2, clip=4.0),
    "nmt_deep": dict(enc_layers=2, dec_layers=2, feed=1, tie=1, tie_src=1, smoothing=0.2, hidden=8,
                     embed=8, src_vocab=11, batch=4, clip=1.1),
}


class Translator(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.case = case
        layers, cell = CELLS[case["cell"]]
        embed, hidden = case["embed"], case["hidden"]
        self.tgt_embed = nn.Embedding(case["tgt_vocab"], embed)
        self.src_embed = self.tgt_embed if case["tie_src"] else nn.Embedding(case["src_vocab"], embed)
        self.enc = layers(embed, hidden // 2, bidirectional=True)
        if case["enc_layers"] > 1:
            self.upper = layers(hidden, hidden, case["enc_layers"] - 1)
        first = embed + hidden * case["feed"]
        self.dec = nn.ModuleList(cell(hidden if l else first, hidden) for l in range(case["dec_layers"]))
        self.attn = nn.ModuleDict({"key": nn.Linear(hidden, hidden, bias=False)})
        if case["attention"] == "mlp":
            self.attn["query"] = nn.Linear(hidden, hidden)
            self.attn["score"] = nn.Linear(hidden, 1, bias=False)
        if case["layer_norm"]:
            self.attn["norm"] = nn.LayerNorm(hidden)
        self.mix = nn.Linear(2 * hidden, hidden)
        self.out = nn.Linear(hidden, case["tgt_vocab"])
        if case["tie"]:
            self.out.weight = self.tgt_embed.weight
        for name, p in self.named_parameters():  # wide, so that attention has something to choose
            nn.init.uniform_(p, -1.2, 1.2)
            if name == "attn.norm.weight":
                p.data.add_(1)

    def encode(self, src, lengths):
        packed = pack_padded_sequence(self.src_embed(src), lengths, enforce_sorted=False)
        packed, _ = self.enc(packed)
        if self.case["enc_layers"] > 1:
            packed, _ = self.upper(packed)
        return pad_packed_sequence(packed, total_length=src.shape[0])[0]  # [S, B, H]

    def norm(self, x):
        return self.attn["norm"](x) if self.case["layer_norm"] else x

    def scores(self, keys, h):
        """[S, B, H] and [B, H] to [S, B]"""
        if self.case["attention"] == "dot":
            return (keys * self.norm(h)).sum(-1)
        return self.attn["score"](torch.tanh(self.norm(keys + self.attn["query"](h)))).squeeze(-1)

    def cell(self, layer, x, state):
        state = self.dec[layer](x, state)
        return state if self.case["cell"] == "lstm" else (state,)

    def forward(self, src, lengths, tgt_in, tgt_out):
        memory = self.encode(src, lengths)
        padding = torch.arange(src.shape[0])[:, None] >= lengths[None, :]
        keys = self.attn["key"](memory)
        zero = memory.new_zeros(src.shape[1], self.case["hidden"])
        states = [(zero, zero) if self.case["cell"] == "lstm" else (zero,) for _ in self.dec]
        mixed, outputs = zero, []
        for word in self.tgt_embed(tgt_in):
            x = torch.cat([word, mixed], -1) if self.case["feed"] else word
            for layer in range(len(self.dec)):
                states[layer] = self.cell(layer, x, states[layer] if len(states[layer]) > 1 else states[layer][0])
                x = states[layer][0]
            weights = F.softmax(self.scores(keys, x).masked_fill(padding, -torch.inf), 0)
            context = (weights[..., None] * memory).sum(0)
            mixed = torch.tanh(self.mix(torch.cat([x, context], -1)))
            outputs.append(mixed)
        logits = self.out(torch.stack(outputs))  # [T, B, V]
        loss = F.cross_entropy(logits.flatten(0, 1), tgt_out.flatten(), ignore_index=-1,
                               label_smoothing=self.case["smoothing"])
        return loss, logits


def ebb_name(name):
    """The name of a parameter in src/model/nmt.h."""
    parts = name.split(".")
    if parts[0] == "upper":  # its layer i is the encoder's layer i + 1
        what, layer = parts[1].rsplit("_l", 1)
        return f"enc.{what}_l{int(layer) + 1}"
    return f"dec.{parts[2]}_l{parts[1]}" if parts[0] == "dec" else name


def parameters(model):
    """(name, parameter) with ebb's names; a score's weight [1, H] is [H] there."""
    return [(ebb_name(name), p) for name, p in model.named_parameters()]


def stored(name, tensor):
    return tensor.detach().clone().flatten() if name == "attn.score.weight" else tensor.detach().clone()


def make_data(case, generator):
    """Two batches in turn. Sources and targets of all lengths down to 1; words in padding are random."""
    steps, batch, src_len, tgt_len = 2, case["batch"], case["src_len"], case["tgt_len"]

    def words(vocab, length):
        return torch.randint(vocab, (steps, length, batch), generator=generator)

    src, tgt_in, tgt_out = words(case["src_vocab"], src_len), words(case["tgt_vocab"], tgt_len), words(
        case["tgt_vocab"], tgt_len)
    lengths = torch.randint(1, src_len + 1, (steps, batch), generator=generator)
    lengths[:, 0] = src_len
    lengths[1, 1] = 1
    tgt_lengths = torch.randint(1, tgt_len, (steps, batch), generator=generator)
    tgt_lengths[:, 1] = tgt_len
    tgt_out[torch.arange(tgt_len)[None, :, None] >= tgt_lengths[:, None, :]] = -1
    return [x.repeat(STEPS // 2, *[1] * (x.dim() - 1)) for x in (src, lengths, tgt_in, tgt_out)]


def train(case, weights, data, tensors):
    model = Translator(case).double()
    model.load_state_dict(weights)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    losses, norms = [], []
    for batch in zip(*data):
        optimizer.zero_grad()
        loss, _ = model(*batch)
        loss.backward()
        norms.append(norm_of(model).item())
        nn.utils.clip_grad_norm_(model.parameters(), case["clip"])
        optimizer.step()
        losses.append(loss.item())
    if not min(norms) < case["clip"] < max(norms):
        raise SystemExit(f"norms {norms} lie all on one side of the bound {case['clip']}")
    tensors["adam.losses"] = torch.tensor(losses)
    tensors["adam.norms"] = torch.tensor(norms)
    tensors.update({f"adam.{name}": stored(name, p) for name, p in parameters(model)})


def make_case(case, seed):
    torch.manual_seed(seed)
    model = Translator(case).double()
    for p in model.parameters():
        p.data.copy_(p.data.float())
    weights = {name: w.clone() for name, w in model.state_dict().items()}
    data = make_data(case, torch.Generator().manual_seed(seed))
    src, lengths, tgt_in, tgt_out = data
    loss, logits = model(*[x[0] for x in data])
    loss.backward()
    tensors = {"data.src": descending(src).int(), "data.src_len": lengths.int(),
               "data.tgt_in": descending(tgt_in).int(), "data.tgt_out": descending(tgt_out).int(),
               "loss": loss.detach().view(1), "logits": logits.detach().flip(0).flatten(0, 1)}
    for name, p in parameters(model):
        tensors[name] = stored(name, p)
        tensors[f"grad.{name}"] = stored(name, p.grad)
    train(case, weights, data, tensors)
    return tensors


def main():
    root = Path(__file__).resolve().parents[2]
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests" / "golden"
    torch.set_num_threads(1)
    for seed, (name, changes) in enumerate(CASES.items(), 1):
        case = {**SIZES, **changes}
        tensors = make_case(case, seed)
        arrays = {key: (t if t.dtype == torch.int32 else t.float()).numpy() for key, t in tensors.items()}
        notes = {"generator": "tools/golden/nmt.py", "torch": torch.__version__.split("+")[0], "lr": str(LR),
                 **{key: str(value) for key, value in case.items()}}
        save(folder / f"{name}.safetensors", arrays, notes)


if __name__ == "__main__":
    main()
