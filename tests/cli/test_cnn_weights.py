"""Files of weights of convolutional nets: named as PyTorch's modules name them, with running statistics and
their counts; read back, with what torchvision's files have beside the net; those of other nets refused."""
import json
import random
import struct

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
    start({**good, "fc.bias": floats(1, 2)}, "fc.bias", "another type or shape")
    start({**good, "norm.running_mean": ("I64", [], bytes(8))}, "norm.running_mean", "another type or shape")
    start({**good, "tail.1.running_var": floats(1, 1, float("nan"), 1, 1)}, "tail.1.running_var", "not finite")


main(globals())
