#!/usr/bin/env python3
"""Writes tests/golden/lm_*.safetensors: small language models as PyTorch computes them.

Usage: tools/golden/lm.py [FOLDER]    (default: tests/golden; needs torch, numpy)

One file a model, read by tests/golden/test_lm.c. PyTorch computes in double from weights that are
exact in float32, and the results are rounded once, so the file is nearer to the truth than any
float32 program and a bound on the difference is a bound on our own error.

  <param>             starting weights (embed.weight, rnn.weight_ih_l0, ..., out.bias)
  state.h.L, .c.L     [B, H] state before the first step; final.h.L, .c.L after it
  data.inputs         [STEPS, T*B] i32, time descending by blocks of B, as data/batcher.h gives them
  data.targets        the same; -1 is ignored
  logits              [T*B, V] of the first step, rows as data.inputs
  loss, grad.<param>  mean loss [1] of the first step, its gradients
  <run>.losses        [STEPS] loss before each update, the state carried from step to step
  <run>.norms         [STEPS] gradient norm before clipping
  <run>.<param>       weights after the last update; <run> is sgd, momentum, adam or adamw

Sizes, settings of the runs and versions are in the file's metadata.
"""
import json
import struct
import sys
from pathlib import Path

import torch
from torch import nn

STEPS = 10
LAYERS = 2
CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
# clip lies between the norms of the steps: it bites on some of them.
CASES = {
    "lm_lstm": dict(cell="lstm", tie=0, vocab=37, embed=13, hidden=11, batch=3, steps=7, clip=0.295),
    "lm_gru": dict(cell="gru", tie=0, vocab=37, embed=13, hidden=11, batch=3, steps=7, clip=0.412),
    "lm_rnn": dict(cell="rnn", tie=0, vocab=37, embed=13, hidden=11, batch=3, steps=7, clip=0.65),
    "lm_lstm_tied": dict(cell="lstm", tie=1, vocab=29, embed=17, hidden=17, batch=5, steps=6, clip=0.24),
}
RUNS = {
    "sgd": dict(lr=1.0, momentum=0.0, weight_decay=0.0, clipped=1),
    "momentum": dict(lr=0.1, momentum=0.9, weight_decay=0.01, clipped=0),
    "adam": dict(lr=0.01, weight_decay=0.0, clipped=1),
    "adamw": dict(lr=0.01, weight_decay=0.1, clipped=0),
}


class LanguageModel(nn.Module):
    def __init__(self, case):
        super().__init__()
        self.embed = nn.Embedding(case["vocab"], case["embed"])
        self.rnn = CELLS[case["cell"]](case["embed"], case["hidden"], LAYERS)
        self.out = nn.Linear(case["hidden"], case["vocab"])
        if case["tie"]:
            self.out.weight = self.embed.weight
            nn.init.uniform_(self.embed.weight, -0.5, 0.5)

    def forward(self, inputs, targets, state):
        hidden, state = self.rnn(self.embed(inputs), state)
        logits = self.out(hidden)  # [T, B, V]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return loss, logits, state


def make_data(case, generator):
    """Two windows in turn, so that there is something to learn. Tokens with repeats (embedding rows
    that get several gradients) and rows never used; a fifth of the targets ignored, and all those of
    one time step."""
    shape = (2, case["steps"], case["batch"])
    inputs = torch.randint(case["vocab"] - 5, shape, generator=generator)
    inputs[:, :2, 0] = 3
    targets = torch.randint(case["vocab"], shape, generator=generator)
    targets[torch.rand(shape, generator=generator) < 0.2] = -1
    targets[:, 2] = -1
    return inputs.repeat(STEPS // 2, 1, 1), targets.repeat(STEPS // 2, 1, 1)


def descending(x):
    """[..., T, B] to rows in ebb's order."""
    return x.flip(-2).flatten(-2)


def state_names(cell):
    return ("h", "c") if cell == "lstm" else ("h",)


def pack_state(cell, parts):
    return tuple(parts) if cell == "lstm" else parts[0]


def unpack_state(cell, state):
    return list(state) if cell == "lstm" else [state]


def make_optimizer(run, model):
    o = RUNS[run]
    if run in ("sgd", "momentum"):
        return torch.optim.SGD(model.parameters(), lr=o["lr"], momentum=o["momentum"],
                               weight_decay=o["weight_decay"])
    kind = torch.optim.Adam if run == "adam" else torch.optim.AdamW
    return kind(model.parameters(), lr=o["lr"], weight_decay=o["weight_decay"])


def norm_of(model):
    return torch.sqrt(sum((p.grad**2).sum() for p in model.parameters()))


def train(run, case, weights, state, inputs, targets, tensors):
    model = LanguageModel(case).double()
    model.load_state_dict(weights)
    optimizer = make_optimizer(run, model)
    losses, norms, clip = [], [], case["clip"] * RUNS[run]["clipped"]
    for x, y in zip(inputs, targets):
        optimizer.zero_grad()
        loss, _, state = model(x, y, state)
        state = pack_state(case["cell"], [s.detach() for s in unpack_state(case["cell"], state)])
        loss.backward()
        norms.append(norm_of(model).item())
        if clip > 0:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
    if clip > 0 and not min(norms) < clip < max(norms):
        raise SystemExit(f"{run}: norms {norms} lie all on one side of the bound {clip}")
    tensors[f"{run}.losses"] = torch.tensor(losses)
    tensors[f"{run}.norms"] = torch.tensor(norms)
    tensors.update({f"{run}.{name}": p.detach().clone() for name, p in model.named_parameters()})


def make_case(case, seed):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = LanguageModel(case).double()
    for p in model.parameters():
        p.data.copy_(p.data.float())
    weights = {name: w.clone() for name, w in model.state_dict().items()}
    inputs, targets = make_data(case, generator)
    shape = (LAYERS, case["batch"], case["hidden"])
    first = [(torch.rand(shape, generator=generator) * 1.6 - 0.8).double() for _ in state_names(case["cell"])]
    state = pack_state(case["cell"], first)
    loss, logits, last = model(inputs[0], targets[0], state)
    loss.backward()

    tensors = {"data.inputs": descending(inputs).int(), "data.targets": descending(targets).int(),
               "loss": loss.detach().view(1), "logits": logits.detach().flip(0).flatten(0, 1)}
    for part, before, after in zip(state_names(case["cell"]), first, unpack_state(case["cell"], last)):
        for layer in range(LAYERS):
            tensors[f"state.{part}.{layer}"] = before[layer]
            tensors[f"final.{part}.{layer}"] = after[layer].detach()
    for name, p in model.named_parameters():
        tensors[name] = weights[name]
        tensors[f"grad.{name}"] = p.grad
    for run in RUNS:
        train(run, case, weights, state, inputs, targets, tensors)
    return tensors


DTYPES = {"float32": "F32", "int32": "I32", "int64": "I64", "uint8": "U8"}


def save(path, arrays, notes):
    """A safetensors file whose bytes depend on nothing else (the package orders notes by chance)."""
    header, data = {"__metadata__": dict(sorted(notes.items()))}, b""
    for name, array in sorted(arrays.items()):
        header[name] = {"dtype": DTYPES[array.dtype.name],
                        "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    root = Path(__file__).resolve().parents[2]
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests" / "golden"
    torch.set_num_threads(1)
    for seed, (name, case) in enumerate(CASES.items(), 1):
        tensors = make_case(case, seed)
        arrays = {key: (t if t.dtype == torch.int32 else t.float()).numpy() for key, t in tensors.items()}
        notes = {"generator": "tools/golden/lm.py", "torch": torch.__version__.split("+")[0],
                 "layers": str(LAYERS), **{key: str(value) for key, value in case.items()}}
        for run, settings in RUNS.items():
            notes.update({f"{run}.{key}": str(value) for key, value in settings.items()})
        save(folder / f"{name}.safetensors", arrays, notes)


if __name__ == "__main__":
    main()
