#!/usr/bin/env python3
"""Writes tests/golden/cnn_fp*.safetensors: a step of a net whose backward reads rounded values.

Usage: tools/golden/cnn_stash.py [FOLDER]    (default: tests/golden; needs torch, numpy)

PyTorch computes in double, as in cnn.py; what backward reads is put in its place by hand, following the rules of
docs/decisions/0030 and nothing of ebb's own. Contents as in cnn.py, of one step: starting weights, data, `sgd.losses`,
`sgd.norms`, `sgd.<name>`. A seed is taken where relu, maxima and rounding are decided by more than float32 may be off.
"""
import math
import sys
from pathlib import Path

import torch
from torch.nn import functional

import cnn
from lm import save
from net_torch import Net

MARGIN = 1e-6  # of a value and its deviation: as near to half of a step rounding may come
LR = 0.5
# Norms and what follows them, pools behind products and behind norms, LRN, a sum, a join, means, two products.
NET = """
input 3 8 8
conv 8 3 pad 1 nobias
bn
a: relu
conv 8 3 pad 1 nobias
bn
add from=a
b: relu
maxpool 2
one: conv 8 1
r1: relu
conv 4 3 pad 1 nobias from=maxpool1
bn
r2: relu
concat r1 r2
lrn 3 alpha 0.4 k 2
conv 12 3 pad 1
relu
maxpool 2
avgpool 2 1
flatten
fc 9
relu
dropout 0
fc 5
"""
# Mantissa, bias, largest; fp8 as E4M3 has it.
FORMATS = {"fp16": (10, 15, 65504.0), "fp10": (4, 15, 63488.0), "fp8": (3, 7, 448.0)}


class Rounding:
    def __init__(self, name):
        self.mantissa, self.bias, self.largest = FORMATS[name]
        self.decided = True

    def __call__(self, x):
        x = x.detach()
        exponent = torch.frexp(x).exponent - 1
        step = torch.ldexp(torch.ones_like(x), exponent.clamp(min=1 - self.bias) - self.mantissa)
        parts = x / step
        near = ((parts - parts.floor() - 0.5).abs() * step) < MARGIN * (x.abs() + x.std())
        self.decided = self.decided and not near.logical_and(x != 0).any().item()
        return (parts.round() * step).clamp(-self.largest, self.largest)  # round() is to even


class Seen(torch.autograd.Function):
    """fn(x, ...), whose gradient is taken as if x had been `seen`."""
    @staticmethod
    def forward(ctx, fn, seen, x, *params):
        ctx.fn = fn
        ctx.save_for_backward(seen, *params)
        return fn(x, *params)

    @staticmethod
    def backward(ctx, dy):
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in ctx.saved_tensors]
            return None, None, *torch.autograd.grad(ctx.fn(*leaves), leaves, dy)


class Norm(torch.autograd.Function):
    """Batch norm with statistics of x, whose gradient takes the deviations of `seen` from them."""
    @staticmethod
    def forward(ctx, seen, x, gain, bias, eps):
        mean, scale = x.mean((0, 2, 3), keepdim=True), (x.var((0, 2, 3), False, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward((seen - mean) * scale, scale, gain)
        ctx.mark_non_differentiable(mean, scale)
        return (x - mean) * scale * gain.view(1, -1, 1, 1) + bias.view(1, -1, 1, 1), mean, scale

    @staticmethod
    def backward(ctx, dy, *_):
        hat, scale, gain = ctx.saved_tensors
        over = lambda t: t.mean((0, 2, 3), keepdim=True)
        dx = (dy - over(dy) - hat * over(dy * hat)) * scale * gain.view(1, -1, 1, 1)
        return None, dx, (dy * hat).sum((0, 2, 3)), dy.sum((0, 2, 3)), None


def layer_step(layer, xs, seen, lossy, own, rounding):
    """What the layer makes, what backward sees of it, and whether that is it, rounded."""
    x, r = xs[0], seen[0]
    plain = lambda t: layer.apply([t], own, True)
    if layer.op in ("conv", "fc"):
        keys = list(own)
        fn = lambda t, *params: layer.apply([t], dict(zip(keys, params)), True)
        y = Seen.apply(fn, r, x, *own.values())
        return y, rounding(y), True
    if layer.op == "bn":
        y, mean, scale = Norm.apply(r, x, own["weight"], own["bias"], layer.eps)
        with torch.no_grad():
            plain(x)  # running statistics
            again = (r - mean) * scale * own["weight"].view(1, -1, 1, 1) + own["bias"].view(1, -1, 1, 1)
        return y, again, False
    if layer.op == "lrn":
        return Seen.apply(plain, r, x), plain(r), False
    if layer.op in ("relu", "maxpool", "flatten"):
        y = plain(x)
        return (y, rounding(y), True) if lossy[0] else (y, plain(r), False)
    if layer.op in ("add", "avgpool"):
        y = layer.apply(xs, own, True)
        return y, rounding(y), True
    if layer.op == "concat":
        return layer.apply(xs, own, True), layer.apply(seen, own, True), all(lossy)
    return x, r, lossy[0]  # dropout of rate 0


def forward(net, x, tensors, rounding, operands):
    made = {"input": (x, x, False)}
    for layer in net.layers:
        own = {key.rpartition(".")[2]: tensors[key] for key in tensors if key.rpartition(".")[0] == layer.name}
        xs, seen, lossy = zip(*(made[name] for name in layer.reads))
        operands[layer.name] = (layer, xs[0].detach())
        if layer is net.layers[-1]:  # the loss reads it: nothing of it is rounded
            rounding = lambda y: y
        made[layer.name] = layer_step(layer, list(xs), list(seen), lossy, own, rounding)
    return made[net.layers[-1].name][0]


def make_case(net, batch, stash, seed):
    torch.manual_seed(seed)
    tensors, operands, rounding = cnn.start(net), {}, Rounding(stash)
    data = cnn.make_data(net, batch, 5)
    now = cnn.leaves(net, tensors)
    pixels, labels, scale, shift = (part[0] for part in data)
    x = (pixels.double() * scale.double() + shift.double()).permute(0, 3, 1, 2)
    loss = functional.cross_entropy(forward(net, x, now, rounding, operands), labels.long(), ignore_index=-1)
    if not (rounding.decided and cnn.is_decided(operands)):
        return None
    loss.backward()
    grads = [now[name].grad for name in net.trained]
    out = {**tensors, **dict(zip(("data.pixels", "data.labels", "data.scale", "data.shift"), data))}
    out["sgd.losses"] = loss.detach().view(1)
    out["sgd.norms"] = torch.tensor([math.sqrt(sum((grad ** 2).sum().item() for grad in grads))])
    for name in net.trained:
        out[f"sgd.{name}"] = (now[name] - LR * now[name].grad).detach()
    out.update({f"sgd.{name}": now[name].detach() for name in now if name not in net.trained})
    return out


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else cnn.ROOT / "tests" / "golden"
    torch.set_num_threads(1)
    net, batch = Net(NET), 4
    for stash in ("fp10", "fp8"):  # of fp16, too many values lie near the middle of two
        tensors = next(made for seed in range(5000) if (made := make_case(net, batch, stash, seed)) is not None)
        arrays = {key: (t.float() if t.is_floating_point() else t).contiguous().numpy() for key, t in tensors.items()}
        notes = {"generator": "tools/golden/cnn_stash.py", "torch": torch.__version__.split("+")[0],
                 "net": NET.strip() + "\n", "batch": str(batch), "lr": str(LR), "stash": stash[2:]}
        save(folder / f"cnn_{stash}.safetensors", arrays, notes)


if __name__ == "__main__":
    main()
