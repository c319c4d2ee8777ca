"""What is measured: the models of the comparison with their floors, and the sweeps over one size.

A point is a dictionary of the options of `ebb bench lm`, which are also those of the peers.
"""

PER_SECOND = 6e10  # rough floating-point operations a second, to choose how many steps to time


def flops(point):
    """Of one step, products only: forward once, backward twice."""
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


def point_name(p):
    dropout = f", dropout {p['dropout']:g}" if p["dropout"] else ""
    threads = ", 1 thread" if p["threads"] == 1 else ""
    return f"{p['cell'].upper()} {p['layers']}x{p['hidden']}, B {p['batch']}, T {p['bptt']}{dropout}{threads}"


def flags(p):
    return [word for name, value in p.items() for word in (f"--{name}", f"{value:g}" if name == "dropout" else str(value))]


def model(**sizes):
    return point(5, 3, **sizes)


def sweep(name, values, **sizes):
    return [point(3, 1, **{**sizes, name: value}) for value in values]


# (model, least speed of ebb over the fastest peer, most memory of ebb over the smallest peer or None)
FLOORS = [
    (model(hidden=650, bptt=35, dropout=0.5), 1.3, 0.45),
    (model(hidden=512, batch=128, bptt=50), 1.5, 0.30),
    (model(hidden=1500, bptt=35), 1.35, 0.62),
    (model(hidden=200, bptt=35), 1.4, 0.25),
    (model(hidden=650, bptt=35, cell="gru"), 1.5, 0.45),
    (model(layers=1, hidden=256, batch=4, bptt=100), 1.3, None),
    (model(hidden=512, batch=64, bptt=35, threads=1), 1.3, None),
]

SWEPT = ("ebb", "ebb-default", "torch-eager", "jax")

# suite: (points, engines). Odd sizes stand among the round ones: 3, 13, 50; 97, 333, 1001.
SUITES = {
    "models": ([m for m, _, _ in FLOORS], ("ebb", "torch-eager", "torch-compile", "jax")),
    "batch": (sweep("batch", (1, 2, 3, 4, 8, 13, 16, 32, 50, 64, 128, 256)), SWEPT),
    "hidden": (sweep("hidden", (96, 97, 128, 192, 256, 333, 512, 768, 1001, 1024, 1536, 2048)), SWEPT),
    "layers": (sweep("layers", (1, 2, 3, 4, 6, 8), hidden=256), SWEPT),
}
