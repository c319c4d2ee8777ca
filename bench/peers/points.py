"""What is measured: the models of the comparison with their floors, the sweeps over one size, the curve.

A point is a dictionary of the options of `ebb bench lm` or `ebb bench nmt`, which are also those of
the peers. Of a curve it has one more: --memory of ebb or --activation-budget of torch.compile.
"""

PER_SECOND = 6e10  # rough floating-point operations a second, to choose how many steps to time


def kind_of(p):
    return "nmt" if "src-len" in p else "lm"


def flops(point):
    """Of one step, products only: forward once, backward twice."""
    if kind_of(point) == "nmt":
        hidden, length = point["hidden"], point["tgt-len"]
        encoder, decoder = 4 * hidden * (hidden + hidden // 2) + hidden**2, 12 * hidden**2
        attention = hidden * (3 * hidden + 12 * point["src-len"])  # a tanh is worth about ten products
        return 6 * point["batch"] * (point["src-len"] * encoder + length * (decoder + attention + hidden * point["vocab"]))
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[point["cell"]]
    hidden, layers = point["hidden"], point["layers"]
    weights = layers * gates * hidden * 2 * hidden + hidden * point["vocab"]
    return 6 * point["batch"] * point["bptt"] * weights


def point(least, seconds, **sizes):
    """A point with at least `least` timed steps, more where that many take less than `seconds`."""
    full = {"cell": "lstm", "layers": 2, "hidden": 512, "vocab": 10000, "batch": 20, "bptt": 20,
            "dropout": 0.0, "threads": 2, **sizes}
    full["steps"] = max(least, min(50, int(seconds * PER_SECOND / flops(full))))
    return full


def nmt_point(least, seconds, hidden, batch, length):
    """Likewise, of a translation model: one layer each side, sources and targets of one length."""
    full = {"hidden": hidden, "vocab": 10000, "batch": batch, "src-len": length, "tgt-len": length, "threads": 2}
    full["steps"] = max(least, min(50, int(seconds * PER_SECOND / flops(full))))
    return full


def point_name(p):
    if kind_of(p) == "nmt":
        return f"NMT 1+1x{p['hidden']}, B {p['batch']}, S {p['src-len']}, T {p['tgt-len']}"
    dropout = f", dropout {p['dropout']:g}" if p["dropout"] else ""
    threads = ", 1 thread" if p["threads"] == 1 else ""
    return f"{p['cell'].upper()} {p['layers']}x{p['hidden']}, B {p['batch']}, T {p['bptt']}{dropout}{threads}"


def setting(p):
    """What a point of a curve differs in from the others."""
    if "memory" in p:
        return f"at most {p['memory'] / 2**20:.2f} MiB"
    return f"budget {p['activation-budget']:g}" if "activation-budget" in p else ""


def flags(p):
    return [word for name, value in p.items()
            for word in (f"--{name}", f"{value:g}" if isinstance(value, float) else str(value))]


def model(**sizes):
    return point(5, 3, **sizes)


def sweep(name, values, **sizes):
    return [point(3, 1, **{**sizes, name: value}) for value in values]


# suite: (model, least speed of ebb over the fastest peer, most memory of ebb over the smallest peer or None)
FLOORS = {"models": [
    (model(hidden=650, bptt=35, dropout=0.5), 1.3, 0.45),
    (model(hidden=512, batch=128, bptt=50), 1.5, 0.30),
    (model(hidden=1500, bptt=35), 1.35, 0.62),
    (model(hidden=200, bptt=35), 1.4, 0.25),
    (model(hidden=650, bptt=35, cell="gru"), 1.5, 0.45),
    (model(layers=1, hidden=256, batch=4, bptt=100), 1.3, None),
    (model(hidden=512, batch=64, bptt=35, threads=1), 1.3, None),
], "nmt": [
    (nmt_point(5, 3, 512, 64, 30), 1.5, 0.5),
    (nmt_point(5, 3, 512, 128, 50), 1.5, 0.35),
]}

# Of the curve: how many of ebb's plans are measured, and the shares that torch.compile is given.
CURVE_PLANS = 8
ACTIVATION_BUDGETS = (0.0, 0.25, 0.5, 0.75, 1.0)

SWEPT = ("ebb", "ebb-default", "torch-eager", "jax")

# suite: (points, engines). Odd sizes stand among the round ones: 3, 13, 50; 97, 333, 1001.
SUITES = {
    "models": ([m for m, _, _ in FLOORS["models"]], ("ebb", "torch-eager", "torch-compile", "jax")),
    "batch": (sweep("batch", (1, 2, 3, 4, 8, 13, 16, 32, 50, 64, 128, 256)), SWEPT),
    "hidden": (sweep("hidden", (96, 97, 128, 192, 256, 333, 512, 768, 1001, 1024, 1536, 2048)), SWEPT),
    "layers": (sweep("layers", (1, 2, 3, 4, 6, 8), hidden=256), SWEPT),
    "nmt": ([m for m, _, _ in FLOORS["nmt"]], ("ebb", "torch-eager", "torch-checkpoint", "jax", "jax-remat")),
    # Small enough for torch.compile, which unrolls the decoder.
    "nmt-curve": ([nmt_point(10, 3, 256, 64, 20)],
                  ("ebb", "torch-eager", "torch-checkpoint", "jax", "jax-remat", "torch-compile")),
}
