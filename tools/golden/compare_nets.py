#!/usr/bin/env python3
"""One training step of every named net, by ebb and by PyTorch: loss, gradients, running statistics.

Usage: tools/golden/compare_nets.py [--batch 6,8] [--build build] [--threads 2] [NET[:SIZE] ...]
       (needs torch, torchvision, numpy; PEER_PYTHON may name an interpreter that has them)

Both start from the same weights and images, without dropout. torchvision's nets are built by it; the others are
written down here. A line a net: the worst relative error of a tensor (norm of the difference over the norm) and where.

In float32 a relu whose operand is nearly 0 may be on either side, and either of two nearly equal pixels the largest;
each of millions such decisions that falls otherwise changes a gradient by far more than rounding does. So where
PyTorch's float32 and ebb differ by more than the bound, PyTorch computes once more in double, with ebb's decisions
in place of its own: loss and gradients must then be within the bound, or twice as far as PyTorch's float32 is with
the same decisions, and no decision be other than double's by more than MARGIN of its map's deviation, or ten times what
maps are off by.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    import torchvision
except ImportError as missing:
    peer = os.environ.get("PEER_PYTHON")
    if peer and os.environ.get("COMPARE_NETS") != "again":
        os.execve(peer, [peer, *sys.argv], {**os.environ, "COMPARE_NETS": "again"})
    sys.exit(f"compare_nets.py: {missing}; set PEER_PYTHON to an interpreter with torch and torchvision")
from torch import nn
from torch.nn import functional

from lm import save
from net_torch import Net

ROOT = Path(__file__).resolve().parents[2]
BOUND, BOUND_224, LOSS_BOUND = 1e-5, 3e-5, 1e-5
MARGIN = 1e-3
SCALE, SHIFT = (torch.tensor(value, dtype=torch.float32).item() for value in (1 / 74, -127.5 / 74))

# ---- nets that torchvision lacks, as text ----


class Lines:
    """A text net that grows; layers of a sequence are numbered as torchvision numbers them."""

    def __init__(self, channels, size):
        self.rows, self.prefix, self.count = [f"input {channels} {size} {size}"], "", 0

    def begin(self, prefix):
        self.prefix, self.count = prefix, 0

    def add(self, *statements):
        for statement in statements:
            self.rows.append(f"{self.prefix}.{self.count}: {statement}")
            self.count += 1

    def named(self, name, statement):
        self.rows.append(f"{name}: {statement}")
        return name

    def text(self):
        return "\n".join(self.rows) + "\n"


def conv_relu(*convs):
    return [statement for conv in convs for statement in (f"conv {conv}", "relu")]


def head(lines, *sizes, dropout=True):
    lines.named("flatten", "flatten")
    lines.begin("classifier")
    for size in sizes[:-1]:
        lines.add(f"fc {size}", "relu", *["dropout 0"][:dropout])
    lines.add(f"fc {sizes[-1]}")
    return lines.text()


def lenet(size, classes):
    lines = Lines(1, size)
    lines.begin("features")
    lines.add("conv 6 5 pad 2", "relu", "maxpool 2", "conv 16 5", "relu", "maxpool 2")
    return head(lines, 120, 84, classes, dropout=False)


def alexnet(size, classes):
    """Krizhevsky et al. 2012, on two devices: groups of 2; k 2, n 5, alpha 1e-4 of the sum (5 of it here, where alpha
    is divided by n), beta 0.75."""
    lines = Lines(3, size)
    lines.begin("features")
    lines.add("conv 96 11 stride 4 pad 2", "relu", "lrn 5 k 2", "maxpool 3 2", "conv 256 5 pad 2 groups 2", "relu",
              "lrn 5 k 2", "maxpool 3 2",
              *conv_relu("384 3 pad 1", "384 3 pad 1 groups 2", "256 3 pad 1 groups 2"), "maxpool 3 2")
    return head(lines, 4096, 4096, classes)


def nin(size, classes):
    lines = Lines(3, size)
    lines.begin("features")
    lines.add(*conv_relu("96 11 stride 4", "96 1", "96 1"), "maxpool 3 2 ceil",
              *conv_relu("256 5 pad 2", "256 1", "256 1"), "maxpool 3 2 ceil",
              *conv_relu("384 3 pad 1", "384 1", "384 1"), "maxpool 3 2 ceil", "dropout 0",
              *conv_relu("1024 3 pad 1", "1024 1", f"{classes} 1"))
    lines.named("avgpool", "gap")
    lines.named("flatten", "flatten")
    return lines.text()


def overfeat(size, classes):
    lines = Lines(3, size)
    lines.begin("features")
    lines.add(*conv_relu("96 11 stride 4"), "maxpool 2", *conv_relu("256 5"), "maxpool 2",
              *conv_relu("512 3 pad 1", "1024 3 pad 1", "1024 3 pad 1"), "maxpool 2")
    return head(lines, 3072, 4096, classes)


def vgg16(size, classes, bn):
    lines = Lines(3, size)
    lines.begin("features")
    for width, count in (64, 2), (128, 2), (256, 3), (512, 3), (512, 3):
        for _ in range(count):
            lines.add(f"conv {width} 3 pad 1", *["bn"][:bn], "relu")
        lines.add("maxpool 2")
    hidden = 512 if size < 64 else 4096
    return head(lines, hidden, hidden, classes)


def googlenet(size, classes):
    """Szegedy et al. 2014, table 1."""
    lines = Lines(3, size)

    def unit(name, conv, before):
        lines.named(name, f"conv {conv} from={before}")
        return lines.named(f"{name}.relu", "relu")

    x = unit("conv1", "64 7 stride 2 pad 3", "input")
    x = lines.named("maxpool1", "maxpool 3 2 ceil")
    x = unit("conv2", "64 1", lines.named("lrn1", "lrn 5"))
    x = unit("conv3", "192 3 pad 1", x)
    lines.named("lrn2", "lrn 5")
    x = lines.named("maxpool2", "maxpool 3 2 ceil")
    table = {"3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64), "4a": (192, 96, 208, 16, 48, 64),
             "4b": (160, 112, 224, 24, 64, 64), "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
             "4e": (256, 160, 320, 32, 128, 128), "5a": (256, 160, 320, 32, 128, 128),
             "5b": (384, 192, 384, 48, 128, 128)}
    for name, (one, three_in, three, five_in, five, pool) in table.items():
        if name in ("4a", "5a"):
            x = lines.named(f"maxpool{int(name[0]) - 1}", f"maxpool 3 2 ceil from={x}")
        at = f"inception{name}"
        ends = [unit(f"{at}.branch1", f"{one} 1", x),
                unit(f"{at}.branch2.1", f"{three} 3 pad 1", unit(f"{at}.branch2.0", f"{three_in} 1", x)),
                unit(f"{at}.branch3.1", f"{five} 5 pad 2", unit(f"{at}.branch3.0", f"{five_in} 1", x)),
                unit(f"{at}.branch4.1", f"{pool} 1", lines.named(f"{at}.branch4.0", f"maxpool 3 1 pad 1 from={x}"))]
        x = lines.named(f"{at}.concat", "concat " + " ".join(ends))
    lines.named("avgpool", "gap")
    lines.named("flatten", "flatten")
    lines.named("fc", f"fc {classes}")
    return lines.text()


def resnet_cifar(size, classes, depth):
    """He et al. 2015, section 4.2, with a 1x1 convolution without norm where the shape changes."""
    lines = Lines(3, size)
    lines.named("conv1", "conv 16 3 pad 1 nobias")
    lines.named("bn1", "bn")
    x = lines.named("relu1", "relu")
    for stage, width in enumerate((16, 32, 64), 1):
        for block in range((depth - 2) // 6):
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            lines.named(f"{at}.conv1", f"conv {width} 3 stride {stride} pad 1 nobias from={x}")
            lines.named(f"{at}.bn1", "bn")
            lines.named(f"{at}.relu1", "relu")
            lines.named(f"{at}.conv2", f"conv {width} 3 pad 1 nobias")
            y = lines.named(f"{at}.bn2", "bn")
            if stride == 2:
                x = lines.named(f"{at}.downsample.0", f"conv {width} 1 stride 2 nobias from={x}")
            lines.named(f"{at}.add", f"add {y} {x}")
            x = lines.named(f"{at}.relu", "relu")
    lines.named("avgpool", "gap")
    lines.named("flatten", "flatten")
    lines.named("fc", f"fc {classes}")
    return lines.text()


TEXTS = {"lenet": lenet, "alexnet": alexnet, "nin": nin, "overfeat": overfeat, "googlenet": googlenet}
SIZES = {"lenet": 28, "overfeat": 231, "inception_v3": 299}
ALL = ["lenet", "resnet20_cifar", "vgg16:32", "vgg16_bn:32", "alexnet", "alexnet_tv", "nin", "overfeat", "googlenet",
       "googlenet_bn", "inception_v3", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg16",
       "vgg16_bn"]


class TextModel:
    def __init__(self, text):
        self.net = Net(text)
        self.tensors = {}
        for name, shape in self.net.shapes.items():
            fan = torch.Size(shape[1:]).numel()
            self.tensors[name] = torch.randn(shape) * (2 / fan) ** 0.5 if len(shape) > 1 else torch.zeros(shape)
            if name.endswith("running_var"):
                self.tensors[name] += 1
        self.channels = self.net.input[0]

    def step(self, x, labels, tensors):
        now = {name: t.clone().requires_grad_(name in self.net.trained) for name, t in tensors.items()}
        loss = functional.cross_entropy(self.net(x, now), labels)
        loss.backward()
        return loss, {name: t.grad for name, t in now.items() if t.requires_grad}, now


class VisionModel:
    def __init__(self, name, classes):
        name = {"alexnet_tv": "alexnet", "googlenet_bn": "googlenet"}.get(name, name)
        more = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
        self.module = getattr(torchvision.models, name)(num_classes=classes, **more)
        for part in self.module.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
        self.tensors = {key: t.clone() for key, t in self.module.state_dict().items()}
        self.channels = 3

    def step(self, x, labels, tensors):
        self.module.to(x.dtype).train().load_state_dict(tensors)
        self.module.zero_grad()
        loss = functional.cross_entropy(self.module(x), labels)
        loss.backward()
        grads = {name: p.grad.clone() for name, p in self.module.named_parameters()}
        return loss, grads, {name: t.clone() for name, t in self.module.state_dict().items()}


def make_model(name, size, classes):
    cifar = re.fullmatch(r"resnet(\d+)_cifar", name)
    if cifar:
        return TextModel(resnet_cifar(size, classes, int(cifar[1])))
    if name in ("vgg16", "vgg16_bn") and size != 224:  # torchvision would change the size of the last map
        return TextModel(vgg16(size, classes, name.endswith("bn")))
    return TextModel(TEXTS[name](size, classes)) if name in TEXTS else VisionModel(name, classes)


def stir(tensors):
    """Norms and biases that are not 1 and 0, so that none can stand for another."""
    for name, t in tensors.items():
        if t.dim() == 1:
            t += torch.rand(t.shape) * 0.2 - (0 if name.endswith("running_var") else 0.1)


def images(batch, size, channels):
    """u8 [N, Y, X, C]: fields of colour under noise. Of noise alone a deep net sees the same in every image, and its norms
    divide by next to nothing."""
    fields = functional.interpolate(torch.rand(batch, channels, 5, 5), size=(size, size), mode="bicubic")
    return (fields * 200 + torch.rand(fields.shape) * 56).clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


# ---- decisions ----


class Decisions:
    """While it is entered, relus and maxima go by other operands than their own, which come in their order."""

    def __init__(self, operands):
        self.operands, self.others, self.all, self.margin, self.maps, self.last = iter(operands), 0, 0, 0.0, 0.0, None
        self.relu, self.max_pool2d = functional.relu, functional.max_pool2d

    def __enter__(self):
        functional.relu, functional.max_pool2d = self.decided_relu, self.decided_max
        return self

    def __exit__(self, *_):
        functional.relu, functional.max_pool2d = self.relu, self.max_pool2d
        if next(self.operands, None) is not None:
            raise SystemExit("ebb decides more often than PyTorch")

    def following(self, x, behind=None):
        """The next operand, for x. ebb puts a relu off behind the maximum that reads it: where a maximum is meant, its operand
        has gone to the relu already, and that of the relu, which has another shape, comes for the maximum."""
        operand = next(self.operands)
        if behind is not None and operand.shape != x.shape:
            operand = self.relu(behind)
        if operand.shape != x.shape:
            raise SystemExit(f"ebb decides on a map of {list(operand.shape)}, PyTorch on one of {list(x.shape)}")
        self.maps = max(self.maps, norm(operand.double() - x.detach().double()) / norm(x.detach()))
        return operand

    def note(self, x, differs, by):
        self.all += differs.numel()
        self.others += differs.sum().item()
        if differs.any():
            self.margin = max(self.margin, (by[differs].max() / x.std()).item())

    def decided_relu(self, x, inplace=False):
        self.last = self.following(x)
        on = self.last > 0
        with torch.no_grad():
            self.note(x, on != (x > 0), x.abs())
        return x * on

    def decided_max(self, x, *how, **more):
        more = {**more, "return_indices": True}
        chosen = self.max_pool2d(self.following(x, self.last), *how, **more)[1]
        made = x.flatten(2).gather(2, chosen.flatten(2)).view(chosen.shape)
        with torch.no_grad():
            best = self.max_pool2d(x, *how, **more)[0]
            self.note(x, best != made, best - made)
        return made


# ---- comparing ----


def norm(t):
    return torch.linalg.vector_norm(t.double()).item()


def worst_of(got, want):
    """(error, name) of the worst tensor. A bias before a norm has a gradient of 0 in truth: what rounding leaves is
    compared with the gradient of its weights."""
    worst = (0.0, "-")
    for name, reference in want.items():
        size = norm(reference)
        weights = norm(want[name[:-4] + "weight"]) if name.endswith(".bias") else 0.0
        size = weights if size < 1e-5 * weights else size
        error = norm(got[name].double() - reference.double())
        worst = max(worst, (error / size if size > 0 else error, name))
    return worst


def load(path):
    """What the file has, by name."""
    raw = path.read_bytes()
    at = 8 + int.from_bytes(raw[:8], "little")
    out = {}
    for name, entry in json.loads(raw[8:at]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            data = bytearray(raw[at + begin:at + end])
            out[name] = torch.frombuffer(data, dtype=torch.float32).view(entry["shape"])
    return out


def plain(t):
    """A map [G, B, Y, X, n, c] as [N, C, Y, X]."""
    return t if t.dim() != 6 else t.permute(0, 4, 1, 5, 2, 3).flatten(2, 3).flatten(0, 1)


def run_ebb(options, name, classes, tensors, data, folder, decisions=False):
    """Loss, gradients, statistics, and what decided if asked for."""
    arrays = {key: t.contiguous().numpy() for key, t in {**tensors, **data}.items()}
    save(folder / "in.safetensors", arrays, {})
    program = Path(options.build) / "tests" / "golden" / "net_step"
    subprocess.run([program, name, str(classes), folder / "in.safetensors", folder / "out.safetensors",
                    str(options.threads), "0", *["decisions"][:decisions]], check=True)
    out = load(folder / "out.safetensors")
    grads = {key[5:]: t for key, t in out.items() if key.startswith("grad.")}
    stats = {key: t for key, t in out.items() if ".running_" in key}
    return out["loss"].item(), grads, stats, [plain(out[key]) for key in sorted(out) if key.startswith("in.")]


def run_torch(model, pixels, labels, dtype):
    x = (pixels.permute(0, 3, 1, 2).double() * SCALE + SHIFT).to(dtype)
    tensors = {key: t.to(dtype) if t.is_floating_point() else t for key, t in model.tensors.items()}
    loss, grads, after = model.step(x, labels.long(), tensors)
    stats = {key: t for key, t in after.items() if ".running_" in key}
    return loss.item(), grads, stats


def errors(got, want):
    """Loss, gradients, statistics; as text too."""
    return (abs(got[0] - want[0]) / abs(want[0]), worst_of(got[1], want[1]), worst_of(got[2], want[2]))


def shown(e):
    stats = f", statistics {e[2][0]:.1e}" if e[2][1] != "-" else ""
    return f"loss {e[0]:.1e}, gradients {e[1][0]:.1e} ({e[1][1]}){stats}"


def most(e):
    return max(e[1][0], e[2][0])


def compare(options, name, size, batch, folder):
    """Prints the net's line; False: it disagrees."""
    torch.manual_seed(1)
    classes = 10 if name == "lenet" or name.endswith("_cifar") else 1000
    model = make_model(name, size, classes)
    stir(model.tensors)
    pixels = images(batch, size, model.channels)
    labels = torch.randint(classes, (batch,), dtype=torch.int32)
    data = {"data.pixels": pixels, "data.labels": labels, "data.scale": torch.full((model.channels,), SCALE),
            "data.shift": torch.full((model.channels,), SHIFT)}
    ours = run_ebb(options, name, classes, model.tensors, data, folder)
    theirs = run_torch(model, pixels, labels, torch.float32)
    missing = set(ours[1]) ^ set(theirs[1]) | set(ours[2]) ^ set(theirs[2])
    if missing:
        print(f"{name} {size} px, batch {batch}: only one side has {sorted(missing)[:5]}", flush=True)
        return False
    bound = BOUND_224 if size >= 200 else BOUND
    e = errors(ours, theirs)
    good = e[0] <= LOSS_BOUND and most(e) <= bound
    text = f"{name} {size} px, batch {batch}: {shown(e)}"
    if not good:
        ours = run_ebb(options, name, classes, model.tensors, data, folder, decisions=True)
        with Decisions(ours[3]) as by_ebb:
            truth = run_torch(model, pixels, labels, torch.float64)
        with Decisions(ours[3]):
            theirs = run_torch(model, pixels, labels, torch.float32)
        e, other = errors(ours, truth), errors(theirs, truth)
        good = (e[0] <= max(LOSS_BOUND, 2 * other[0]) and most(e) <= max(bound, 2 * most(other))
                and by_ebb.margin <= max(MARGIN, 10 * by_ebb.maps))
        text += (f"; from double: {shown(e)}, maps {by_ebb.maps:.1e}; PyTorch's float {most(other):.1e};"
                 f" {by_ebb.others} of {by_ebb.all} decisions otherwise, by at most {by_ebb.margin:.0e}")
    print(f"{text}: {'agrees' if good else 'DISAGREES'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("nets", nargs="*", metavar="NET[:SIZE]")
    parser.add_argument("--batch", default="6,8")
    parser.add_argument("--build", default=ROOT / "build")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for net in options.nets or ALL:
            name, _, size = net.partition(":")
            size = int(size or SIZES.get(name, 32 if name.endswith("_cifar") else 224))
            for batch in options.batch.split(","):
                good = compare(options, name, size, int(batch), Path(folder)) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
