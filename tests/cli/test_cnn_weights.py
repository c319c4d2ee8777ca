"""Files of weights of convolutional nets: named as PyTorch's modules name them, with running statistics and
their counts; read back, with what torchvision's files have beside the net; those of other nets refused."""
import importlib.util
import json
import os
import random
import struct
import subprocess
import sys
import zlib

from ebbtest import digest, ebb, main, refused, write

NET = """input 1 8 8
stem: conv 6 3 pad 1 nobias
norm: bn
relu
maxpool 2
tail.0: conv 5 3 pad 1
tail.1: bn momentum 0
relu; gap; flatten
fc: fc 3
"""
OWN = ["stem.weight", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var", "tail.0.weight", "tail.0.bias",
       "tail.1.weight", "tail.1.bias", "tail.1.running_mean", "tail.1.running_var", "fc.weight", "fc.bias"]
COUNTS = ["norm.num_batches_tracked", "tail.1.num_batches_tracked"]
RUN = ["train", "cnn", "--train", "images", "--net", "net", "--batch", "8", "--threads", "1", "--quiet"]


MAKE_RESNET18 = """
import struct, json, torch, torchvision
torch.manual_seed(1)
header, data = {}, b""
for name, t in torchvision.models.resnet18(weights=None).state_dict().items():
    content = t.contiguous().numpy().tobytes()
    kind = {torch.float32: "F32", torch.int64: "I64"}[t.dtype]
    header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(content)]}
    data += content
text = json.dumps(header).encode()
open("resnet18.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
"""


def resnet_tensors(layer):
    """A layer's tensors in a file of torchvision's resnet18, all numbers small."""
    name, what, shape = layer["layer"], layer["what"].split()[0], layer["output"]
    counts = {"conv": [("weight", layer["parameters"])], "bn": [(part, shape[0]) for part in ("weight", "bias", "running_mean", "running_var")],
              "fc": [("weight", layer["parameters"] - shape[0]), ("bias", shape[0])]}.get(what, [])
    out = {}
    for part, n in counts:
        dims = [n] if what == "bn" or part == "bias" else None
        if dims is None:
            window = int(layer["what"].split()[1]) if what == "conv" else 1
            dims = [shape[0], n // shape[0] // window ** 2] + ([window, window] if what == "conv" else [])
        value = struct.pack("<f", 1.0 if part in ("running_var",) else 0.01)
        out[f"{name}.{part}"] = ("F32", dims, value * n)
    return out


def png(path, size, dice):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(dice.randrange(256) for _ in range(3 * size)) for _ in range(size))
    write(path, b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) +
          chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def images(count=48, size=8):
    """IDX files of images with one bright row of three."""
    dice = random.Random(1)
    labels = bytes(i % 3 for i in range(count))
    pixels = bytes(min(255, dice.randrange(90) + 150 * (y // 3 == label)) for label in labels for y in range(size)
                   for _ in range(size))
    write("images-idx3-ubyte", struct.pack(">IIII", 0x803, count, size, size) + pixels)
    write("labels-idx1-ubyte", struct.pack(">II", 0x801, count) + labels)
    write("net", NET)
    return [part if part != "images" else "images-idx3-ubyte" for part in RUN]


def load(path):
    """{name: (dtype, shape, bytes)}"""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()
            if name != "__metadata__"}


def save(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return write(path, struct.pack("<Q", len(text)) + text + data)


def floats(*values):
    return "F32", [len(values)], struct.pack(f"<{len(values)}f", *values)


def test_a_file_has_statistics_and_their_counts():
    run = images()
    ebb(*run, "--epochs", "2", "--out", "run")
    steps = json.loads(open("run/metrics.jsonl").read().splitlines()[-1])["step"]
    found = load("run/last.safetensors")
    assert sorted(found) == sorted(OWN + COUNTS), sorted(found)
    for name in COUNTS:
        assert found[name] == ("I64", [], struct.pack("<q", steps)), (found[name], steps)
    mean, var = (struct.unpack("<6f", found[f"norm.running_{what}"][2]) for what in ("mean", "var"))
    assert all(x != 0 for x in mean) and all(0 < x != 1 for x in var)
    assert found["tail.1.running_var"] == floats(1, 1, 1, 1, 1)  # where it starts: its momentum is 0


def test_going_on_ends_with_the_same_bits():
    run = images()
    ebb(*run, "--epochs", "3", "--out", "whole")
    ebb(*run, "--epochs", "1", "--out", "parts")
    ebb(*run, "--epochs", "3", "--out", "parts")
    for name in "last.safetensors", "best.safetensors":
        assert digest("whole/" + name) == digest("parts/" + name), name


def test_what_torchvision_has_beside_a_net_is_ignored():
    run = images()
    ebb(*run, "--epochs", "1", "--out", "first")
    tensors = load("first/last.safetensors")
    tensors["tail.1.running_mean"] = floats(1, 2, 3, 4, 5)
    tensors["tail.1.num_batches_tracked"] = ("I64", [], struct.pack("<q", -7))
    for name in "aux1.conv.conv.weight", "aux2.fc1.bias", "AuxLogits.fc.weight", "AuxLogits.conv0.bn.num_batches_tracked":
        tensors[name] = floats(1)
    save("given.safetensors", tensors)
    ebb(*run, "--epochs", "1", "--init", "given.safetensors", "--out", "second")
    assert load("second/last.safetensors")["tail.1.running_mean"] == floats(1, 2, 3, 4, 5)
    del tensors["norm.num_batches_tracked"]
    save("given.safetensors", tensors)
    ebb(*run, "--epochs", "1", "--init", "given.safetensors", "--out", "third")
    assert digest("second/last.safetensors") == digest("third/last.safetensors")


def test_files_of_other_nets_are_refused():
    run = images()
    ebb(*run, "--epochs", "1", "--out", "first")
    good = load("first/last.safetensors")

    def start(tensors, *says):
        save("other.safetensors", tensors)
        refused(5, *run, "--init", "other.safetensors", "--out", "second", says=["other.safetensors: tensor ", *says])

    start({**good, "tail.2.weight": floats(1)}, "tail.2.weight", "none of this model's")
    start({**good, "aux1": floats(1)}, "aux1")
    start({name: t for name, t in good.items() if name != "tail.0.bias"}, "tail.0.bias is missing")
    start({name: t for name, t in good.items() if name != "norm.running_var"}, "norm.running_var is missing")
    start({**good, "fc.bias": floats(1, 2)}, "fc.weight is for 3 classes", "for 2")
    start({**good, "norm.bias": floats(1, 2)}, "norm.bias", "another type or shape")
    start({**good, "norm.running_mean": ("I64", [], bytes(8))}, "norm.running_mean", "another type or shape")
    start({**good, "tail.1.running_var": floats(1, 1, float("nan"), 1, 1)}, "tail.1.running_var", "not finite")


def test_frozen_parameters_keep_their_bits():
    """Neither gradients nor momentum are there for them, in whatever plan; all others are trained."""
    run = [*images(), "--momentum", "0.9"]
    ebb(*run, "--epochs", "1", "--out", "first")
    before = load("first/best.safetensors")
    tune = [*run, "--init", "first", "--freeze", "stem.*", "--freeze", "norm.*", "--freeze", "tail.0.bias", "--epochs", "2"]
    frozen = {"stem.weight", "norm.weight", "norm.bias", "tail.0.bias"}
    ebb(*tune, "--out", "second")
    after = load("second/last.safetensors")
    assert {name for name in before if name in OWN and "running" not in name and before[name] == after[name]} == frozen
    assert after["norm.running_mean"] != before["norm.running_mean"]  # statistics follow the images
    state = load(next(f"second/{name}" for name in sorted(os.listdir("second")) if name.startswith("ckpt-") and "state" in name))
    assert len([name for name in state if "momentum" in name or "slot" in name or "velocity" in name]) <= len(OWN) - 4 - len(frozen), sorted(state)
    plan = ["plan", "cnn", *run[2:-2], "--json", "--disable", "chunk,recompute"]
    plan.remove("--quiet")
    whole = ebb(*plan, "--momentum", "0.9").json()
    part = ebb(*plan, "--momentum", "0.9", "--freeze", "stem.*,norm.*,tail.0.bias").json()
    bytes_of = {name: len(t[2]) for name, t in before.items()}
    gone = sum(bytes_of[name] for name in frozen)
    assert whole["bytes_by_kind"]["optimizer"] - part["bytes_by_kind"]["optimizer"] >= gone
    assert whole["bytes_by_kind"]["weights"] == part["bytes_by_kind"]["weights"] and part["keep_all_bytes"] < whole["keep_all_bytes"] - gone
    small = ebb(*tune[:-1], "2", "--out", "third", "--memory", ebb(*plan[:-2], "--momentum", "0.9", "--freeze", "stem.*,norm.*,tail.0.bias").json()["least_bytes"])
    assert digest("third/last.safetensors") == digest("second/last.safetensors"), small.err
    refused(2, *run, "--init", "first", "--freeze", "stem.*", "--epochs", "3", "--out", "second", says="freeze")  # not that of the run
    refused(2, *run, "--freeze", "stam.*", "--out", "x", says=["--freeze stam.*", "no parameter of such a name"])
    refused(2, *run, "--freeze", "*", "--out", "x", says="nothing is left")


def test_another_number_of_classes():
    """The last layer starts anew, which is said; anything else that differs is of another net."""
    run = images()
    ebb(*run, "--epochs", "1", "--out", "first")
    write("net", NET.replace("fc 3", "fc 5"))
    loud = [part for part in run if part != "--quiet"]
    said = ebb(*loud, "--epochs", "1", "--init", "first/best.safetensors", "--freeze", "stem.*", "--out", "second").err
    assert "tells 3 classes apart and this model 5: layer fc starts anew" in said, said
    before, after = load("first/best.safetensors"), load("second/last.safetensors")
    assert after["stem.weight"] == before["stem.weight"] and after["fc.weight"][1] == [5, 5]
    write("net", NET.replace("tail.0: conv 5", "tail.0: conv 7"))
    refused(5, *run, "--init", "first", "--out", "third", says=["tail.0.", "another type or shape"])
    refused(5, *run, "--init", "images-idx3-ubyte", "--out", "third", says="images-idx3-ubyte")
    os.makedirs("empty")
    refused(7, *run, "--init", "empty", "--out", "third", says="empty")


def test_torchvisions_resnet18_for_ten_classes():
    """A file of 1000 classes, made by torchvision itself where that is there, else named as it names them."""
    size, dice = 32, random.Random(2)
    python = sys.executable if importlib.util.find_spec("torchvision") else os.environ.get("PEER_PYTHON")
    if python:
        subprocess.run([python, "-c", MAKE_RESNET18], check=True)
    else:
        tensors = {}
        for layer in ebb("plan", "cnn", "--net", "resnet18", "--json").json()["layers"]:
            tensors.update(resnet_tensors(layer))
        save("resnet18.safetensors", tensors)
    given = load("resnet18.safetensors")
    for label in range(10):
        os.makedirs(f"photos/{label}")
        for i in range(2):
            png(f"photos/{label}/{i}.png", size, dice)
    said = ebb("train", "cnn", "--train", "photos", "--net", "resnet18", "--size", "32", "--batch", "4", "--steps", "1", "--hold", "0.5", "--init", "resnet18.safetensors",
               "--freeze", "conv1.*", "--freeze", "bn1.*", "--freeze", "layer?.*", "--out", "run", "--threads", "1").err
    assert "tells 1000 classes apart and this model 10: layer fc starts anew" in said, said
    found = load("run/last.safetensors")
    same = [name for name in given if name in found and found[name][1:] == given[name][1:] and "running" not in name and "tracked" not in name]
    assert sorted(same) == sorted(name for name in given if not name.startswith("fc.") and "running" not in name and "tracked" not in name)
    assert found["fc.weight"][1] == [10, 512]


def test_hash_covers_running_statistics():
    """How far they go with each batch changes nothing else in training."""
    found = []
    for momentum in "0.1", "0.5":
        write("net", NET.replace("norm: bn", f"norm: bn momentum {momentum}"))
        found.append(ebb("bench", "cnn", "--net", "net", "--batch", "8", "--threads", "1", "--steps", "2", "--json").json())
    assert found[0]["loss"] == found[1]["loss"] and found[0]["weights_hash"] != found[1]["weights_hash"], found


main(globals())
