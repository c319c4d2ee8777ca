#!/usr/bin/env python3
"""Writes tests/golden/nets.txt: the layers of torchvision's nets that have parameters.

Usage: tools/golden/nets.py [FILE]    (needs torchvision)

A line `net NAME` begins a net, named as ebb names it, for images of its usual size. Then, for each
convolution, norm and fully connected layer, in the order of names:

  NAME OUTPUT eps=EPS|- SUFFIX=SHAPE ...

OUTPUT is the shape of what it makes of one image, eps that of a norm; parameters and running
statistics follow in PyTorch's order. Sizes are joined by x. Read by tests/golden/test_nets.c.
"""
import sys
from pathlib import Path

import torch
import torchvision

NETS = {
    "alexnet_tv": ("alexnet", 224), "vgg16": ("vgg16", 224), "vgg16_bn": ("vgg16_bn", 224),
    "googlenet_bn": ("googlenet", 224), "inception_v3": ("inception_v3", 299),
    "resnet18": ("resnet18", 224), "resnet50": ("resnet50", 224),
}


def by_x(sizes):
    return "x".join(map(str, sizes))


def lines_of(name, model, size):
    """Shapes are inferred on the meta device: nothing is computed."""
    more = {"aux_logits": False, "init_weights": False} if name in ("googlenet_bn", "inception_v3") else {}
    with torch.device("meta"):
        net = getattr(torchvision.models, model)(**more).eval()
    outputs = {}
    modules = {name: module for name, module in net.named_modules() if list(module.parameters(recurse=False))}
    for module_name, module in modules.items():
        module.register_forward_hook(lambda _, __, made, at=module_name: outputs.update({at: made.shape[1:]}))
    with torch.no_grad():
        net(torch.zeros(1, 3, size, size, device="meta"))
    yield f"net {name}"
    for module_name, module in sorted(modules.items()):
        own = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
        shapes = " ".join(f"{suffix}={by_x(tensor.shape)}" for suffix, tensor in own.items() if tensor.dim() > 0)
        eps = f"{module.eps:g}" if hasattr(module, "eps") else "-"
        yield f"{module_name} {by_x(outputs[module_name])} eps={eps} {shapes}"


def main():
    root = Path(__file__).resolve().parent.parent.parent
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "tests/golden/nets.txt"
    rows = [line for name, (model, size) in NETS.items() for line in lines_of(name, model, size)]
    path.write_text(f"# torchvision {torchvision.__version__.split('+')[0]}, by tools/golden/nets.py\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
