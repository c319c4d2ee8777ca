#!/usr/bin/env python3
"""Writes tests/golden/nmt_*.safetensors: small translation models as PyTorch computes them.

Usage: tools/golden/nmt.py [FOLDER]    (default: tests/golden; needs torch, numpy)

One file a model, read by tests/golden/test_nmt.c. The model is bench/peers/torch_nmt_model.py. As in
lm.py, PyTorch computes in double from weights that are exact in float32, and the results are rounded once.

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

from lm import descending, norm_of, save

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "peers"))
from torch_nmt_model import Translator, parameters  # noqa: E402

STEPS = 4
LR = 0.002
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
    "nmt_both": dict(enc_layers=3, bidirectional=1, clip=2.98),
    "nmt_residual": dict(enc_layers=3, dec_layers=2, residual=1, feed=1, clip=2.76),
    "nmt_init": dict(enc_layers=2, dec_layers=3, init_decoder=1, feed=1, clip=1.5),
    "nmt_init_gru": dict(cell="gru", attention="dot", enc_layers=3, dec_layers=2, bidirectional=1, residual=1, init_decoder=1, clip=3.77),
}


def new_model(case):
    model = Translator(case)
    for name, p in model.named_parameters():  # wide, so that attention has something to choose
        nn.init.uniform_(p, -1.2, 1.2)
        if name == "attn.norm.weight":
            p.data.add_(1)
    return model.double()


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
    model = new_model(case)
    model.load_state_dict(weights)
    optimizer = torch.optim.Adam(model.parameters(), lr=LR)
    losses, norms = [], []
    for batch in zip(*data):
        optimizer.zero_grad()
        loss = model(*batch)
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
    model = new_model(case)
    for p in model.parameters():
        p.data.copy_(p.data.float())
    weights = {name: w.clone() for name, w in model.state_dict().items()}
    data = make_data(case, torch.Generator().manual_seed(seed))
    src, lengths, tgt_in, tgt_out = data
    loss = model(*[x[0] for x in data])
    loss.backward()
    logits = model.out(model.decode(model.encode(src[0], lengths[0]), tgt_in[0]))
    tensors = {"data.src": descending(src).int(), "data.src_len": lengths.int(),
               "data.tgt_in": descending(tgt_in).int(), "data.tgt_out": descending(tgt_out).int(),
               "loss": loss.detach().view(1), "logits": logits.detach().flip(0).flatten(0, 1)}
    for name, p in parameters(model):
        tensors[name] = stored(name, p)
        tensors[f"grad.{name}"] = stored(name, p.grad)
    train(case, weights, data, tensors)
    return tensors


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden"
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
