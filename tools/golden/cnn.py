#!/usr/bin/env python3
"""Writes tests/golden/cnn_*.safetensors: small convolutional nets as PyTorch computes them.

Usage: tools/golden/cnn.py [FOLDER]    (default: tests/golden; needs torch, numpy)

One file a net, read by tests/golden/test_cnn.c. As in lm.py, PyTorch computes in double from weights that are exact
in float32, and the results are rounded once. Together the nets have every op of docs/nets.md.

  <param>, <layer>.running_*  starting weights and statistics
  data.pixels         [STEPS, N, Y, X, C] u8; data.labels [STEPS, N] i32, -1: does not count
  data.scale, .shift  [STEPS, C]: a pixel p is seen as p scale + shift
  eval.logits, .loss  of the first step, with the starting statistics
  loss, grad.<param>  mean loss [1] of the first step with the batch's statistics, its gradients
  after.<running>     statistics after the first step
  sgd.losses, .norms  [STEPS] loss and gradient norm before each update
  sgd.<name>          weights and statistics after the last one

The net itself, sizes and versions are in the file's metadata. A seed is taken where no relu and no maximum is decided
by less than MARGIN, so that float32 decides as double does.
"""
import math
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from lm import save
from net_torch import Net, pair

ROOT = Path(__file__).resolve().parents[2]
STEPS = 3
MARGIN = 1e-5  # of an operand's deviation
UPDATE = dict(lr=0.02, momentum=0.9, weight_decay=0.01)
# Strides 4, 2 and 1, groups, padding, both roundings of pools, LRN, fully connected layers.
PLAIN = """
input 3 29 23
conv 12 5 stride 4 pad 2
relu
lrn 5 alpha 0.5 k 2
maxpool 3 1
conv 24 3 pad 1 groups 3 nobias
relu
lrn 4 alpha 0.2
maxpool 2x3 2 pad 0x1 ceil
conv 20 2 pad 1 groups 2
relu
maxpool 2 ceil
flatten
dropout 0
fc 16
relu
dropout 0
fc 5
"""
# Branches of 16, 48 and 32 channels; windows of 1x1, 3x3, 1x7 and 7x1; norms of every kind; means.
BRANCHES = """
input 3 17 15
conv 16 3 stride 2 pad 1 nobias
bn
stem: relu
one: conv 16 1 nobias
three: conv 48 3 pad 1 nobias from=stem
pool: maxpool 3 1 pad 1 ceil from=stem
conv 32 1
relu
concat one three relu1
bn eps 1e-3 momentum 0.3
relu
conv 10 1 nobias
conv 24 1x7 pad 0x3 nobias
conv 20 7x1 pad 3x0 nobias
bn momentum 1
relu
avgpool 3 1 pad 1
avgpool 2 ceil
gap
flatten
fc 7
"""
# Sums of two and of three, a shortcut with a stride, more channels than one block has, no fully connected layer.
SUMS = """
input 1 8 8
conv 40 3 pad 1 nobias
bn
a: relu
conv 40 3 pad 1 groups 4 nobias
bn eps 1e-4
b: add from=a
c: relu
side: conv 48 1 stride 2 nobias from=b
conv 48 3 stride 2 pad 1 groups 8 nobias from=c
bn
main: relu
maxpool 2 from=c
third.conv: conv 48 1
add main side third.conv
relu
avgpool 3 2 pad 1
conv 6 1
relu
gap
flatten
"""
# Relus that let something through, before a norm, a pool, a sum and a fully connected layer.
LEAKY = """
input 2 9 7
conv 12 3 pad 1 nobias
bn
a: relu slope 0.1
maxpool 2 ceil
conv 12 3 pad 1
b: relu slope 0.25
conv 12 1 stride 2 from=a
add from=b
relu slope 0.01
flatten
fc 6
relu slope 0.1
fc 4
"""
CASES = {"cnn_leaky": (LEAKY, 6), "cnn_plain": (PLAIN, 6), "cnn_branches": (BRANCHES, 8), "cnn_sums": (SUMS, 12)}


def windows(layer, x):
    """[..., elements] of the windows of a pool; what lies outside is never the largest."""
    (high, wide), (above, left), step = pair(layer.window), pair(layer.pad), layer.told.get("stride", layer.window)
    made = functional.max_pool2d(x, layer.window, step, layer.pad, ceil_mode=layer.ceil).shape
    x = functional.pad(x, (left, left + step, above, above + step), value=-torch.inf)
    return x.unfold(2, high, step).unfold(3, wide, step)[:, :, :made[2], :made[3]].flatten(4)


def is_decided(seen):
    for layer, x in seen.values():
        least = MARGIN * x.std()
        if layer.op == "relu" and (x.abs() < least).logical_and(x != 0).any():
            return False
        if layer.op == "maxpool":
            first, second = windows(layer, x).topk(2).values.unbind(-1)
            if (first - second < least).logical_and(first != second).any():
                return False
    return True


def start(net):
    """Weights that keep the size of what passes, norms that do something."""
    tensors = {}
    for name, shape in net.shapes.items():
        if name.endswith("running_var"):
            tensors[name] = torch.rand(shape) + 0.5
        elif len(shape) == 1:
            tensors[name] = torch.randn(shape) * 0.3 + name.endswith(".weight")
        else:
            tensors[name] = torch.randn(shape) * (1.6 / math.prod(shape[1:])) ** 0.5
    return {name: tensor.double() for name, tensor in tensors.items()}


def make_data(net, batch, classes):
    pixels = torch.randint(256, (STEPS, batch, *net.input[1:], net.input[0]), dtype=torch.uint8)
    labels = torch.randint(classes, (STEPS, batch), dtype=torch.int32)
    labels[0, 1] = labels[2, batch - 1] = -1
    scale, shift = torch.rand(net.input[0]) / 100 + 0.01, torch.randn(net.input[0]) * 0.2 - 1.5
    return pixels, labels, scale.expand(STEPS, -1), shift.expand(STEPS, -1)


def run(net, tensors, data, step, **more):
    pixels, labels, scale, shift = (part[step] for part in data)
    x = (pixels.double() * scale.double() + shift.double()).permute(0, 3, 1, 2)
    logits = net(x, tensors, **more)
    return logits, functional.cross_entropy(logits, labels.long(), ignore_index=-1)


def leaves(net, tensors):
    return {name: tensor.clone().requires_grad_(name in net.trained) for name, tensor in tensors.items()}


def train(net, tensors, data, out):
    now = leaves(net, tensors)
    optimizer = torch.optim.SGD([now[name] for name in net.trained], **UPDATE)
    losses, norms = [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        _, loss = run(net, now, data, step)
        loss.backward()
        norms.append(nn.utils.get_total_norm([now[name].grad for name in net.trained]).item())
        losses.append(loss.item())
        optimizer.step()
    out.update({"sgd.losses": torch.tensor(losses), "sgd.norms": torch.tensor(norms)})
    out.update({f"sgd.{name}": tensor.detach() for name, tensor in now.items()})


def make_case(net, batch, seed):
    """None: the seed's net is undecided somewhere."""
    torch.manual_seed(seed)
    tensors, seen = start(net), {}
    data = make_data(net, batch, len(net(torch.zeros(1, *net.input).double(), tensors, train=False)[0]))
    logits, loss = run(net, tensors, data, 0, train=False, seen=seen)
    decided = is_decided(seen)
    out = {**tensors, "eval.logits": logits, "eval.loss": loss.view(1)}
    now = leaves(net, tensors)
    _, loss = run(net, now, data, 0, seen=seen)
    if not (decided and is_decided(seen)):
        return None
    loss.backward()
    out["loss"] = loss.detach().view(1)
    out.update({f"grad.{name}": now[name].grad for name in net.trained})
    out.update({f"after.{name}": now[name] for name in now if name not in net.trained})
    out.update(dict(zip(("data.pixels", "data.labels", "data.scale", "data.shift"), data)))
    train(net, tensors, data, out)
    return out


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "golden"
    torch.set_num_threads(1)
    for name, (text, batch) in CASES.items():
        net = Net(text)
        tensors = next(made for seed in range(1000) if (made := make_case(net, batch, seed)) is not None)
        arrays = {key: (t.float() if t.is_floating_point() else t).contiguous().numpy() for key, t in tensors.items()}
        notes = {"generator": "tools/golden/cnn.py", "torch": torch.__version__.split("+")[0], "net": text.strip() + "\n",
                 "batch": str(batch), **{key: str(value) for key, value in UPDATE.items()}}
        save(folder / f"{name}.safetensors", arrays, notes)


if __name__ == "__main__":
    main()
