"""A net as docs/nets.md writes it (without `repeat`), as PyTorch computes it.

Layers are functions over one dictionary of tensors, since their names may have points in them. Nothing here is
shared with ebb's own reader of such texts: the two are compared.
"""
import torch
from torch.nn import functional

# What may stand without its name behind each op, in order.
PLAIN = {"conv": ("outputs", "window"), "maxpool": ("window", "stride"), "avgpool": ("window", "stride"),
         "lrn": ("size",), "fc": ("outputs",), "dropout": ("rate",)}
FLAGS = ("nobias", "ceil")
USUAL = {"stride": 1, "pad": 0, "groups": 1, "eps": 1e-5, "momentum": 0.1, "size": 5, "alpha": 1e-4, "k": 1.0}


def number(word):
    if "x" in word:
        return tuple(int(part) for part in word.split("x"))
    return float(word) if "." in word or "e" in word else int(word)


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


class Layer:
    def __init__(self, name, op, words, before):
        self.name, self.op, self.told, self.reads = name, op, {}, []
        free = list(PLAIN.get(op, ()))
        while words:
            word = words.pop(0)
            if word == "from":
                self.reads += [before, words.pop(0)] if op in ("add", "concat") else [words.pop(0)]
            elif op in ("add", "concat"):
                self.reads.append(word)
            elif word in FLAGS:
                self.told[word] = True
            elif word[0].isdigit():
                self.told[free.pop(0)] = number(word)
            else:
                self.told[word] = number(words.pop(0))
        self.reads = self.reads or [before]

    def __getattr__(self, key):
        return self.told.get(key, USUAL.get(key, False))

    def shapes(self, channels, elements):
        """Its parameters, then its running statistics."""
        if self.op == "conv":
            made = {"weight": (self.outputs, channels // self.groups, *pair(self.window))}
        elif self.op == "fc":
            made = {"weight": (self.outputs, elements)}
        elif self.op == "bn":
            return {key: (channels,) for key in ("weight", "bias", "running_mean", "running_var")}
        else:
            return {}
        return made if self.nobias else {**made, "bias": (self.outputs,)}

    def apply(self, xs, own, train):
        """own: by suffix, its tensors."""
        x, t = xs[0], self.told
        if self.op == "conv":
            return functional.conv2d(x, own["weight"], own.get("bias"), self.stride, self.pad, 1, self.groups)
        if self.op == "fc":
            return functional.linear(x, own["weight"], own.get("bias"))
        if self.op == "bn":
            return functional.batch_norm(x, own["running_mean"], own["running_var"], own["weight"], own["bias"], train,
                                         self.momentum, self.eps)
        if self.op == "relu":
            return functional.leaky_relu(x, self.slope) if self.slope else functional.relu(x)
        if self.op in ("maxpool", "avgpool"):
            pool = functional.max_pool2d if self.op == "maxpool" else functional.avg_pool2d
            return pool(x, self.window, t.get("stride", self.window), self.pad, ceil_mode=self.ceil)
        if self.op == "lrn":
            return functional.local_response_norm(x, self.size, self.alpha, 0.75, self.k)
        if self.op == "gap":
            return x.mean((2, 3), keepdim=True)
        if self.op == "add":
            return sum(xs[1:], x)
        if self.op == "concat":
            return torch.cat(xs, 1)
        return x.flatten(1) if self.op == "flatten" else x  # dropout is none: its rate is 0


class Net:
    """shapes: of every parameter and running statistic, by name; trained: names of the parameters."""

    def __init__(self, text):
        self.layers, self.shapes, counts = [], {}, {}
        statements = [part.split("#")[0].strip() for part in text.replace(";", "\n").splitlines()]
        words = [statement.replace("=", " ").split() for statement in statements if statement]
        self.input = tuple(int(word) for word in words[0][1:])
        for row in words[1:]:
            label = row.pop(0)[:-1] if row[0].endswith(":") else None
            op, before = row.pop(0), self.layers[-1].name if self.layers else "input"
            if label is None:
                counts[op] = counts.get(op, 0) + 1
                label = f"{op}{counts[op]}"
            self.layers.append(Layer(label, op, row, before))
        self.infer()
        self.trained = [name for name in self.shapes if "running" not in name]

    def infer(self):
        """Shapes, from an image that is not there."""
        made = {"input": torch.zeros(2, *self.input, device="meta")}
        for layer in self.layers:
            xs = [made[name] for name in layer.reads]
            shapes = layer.shapes(xs[0].shape[1], xs[0].shape[1:].numel())
            own = {key: torch.zeros(shape, device="meta") for key, shape in shapes.items()}
            made[layer.name] = layer.apply(xs, own, False)
            self.shapes.update({f"{layer.name}.{key}": shape for key, shape in shapes.items()})

    def __call__(self, x, tensors, train=True, seen=None):
        """Logits. Running statistics in `tensors` are updated in training; `seen` gets every layer's operand."""
        made = {"input": x}
        for layer in self.layers:
            own = {key.rpartition(".")[2]: tensors[key] for key in tensors if key.rpartition(".")[0] == layer.name}
            if seen is not None:
                seen[layer.name] = (layer, made[layer.reads[0]])
            made[layer.name] = layer.apply([made[name] for name in layer.reads], own, train)
        return made[self.layers[-1].name]
