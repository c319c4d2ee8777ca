"""The resident peak of whole commands: never more than 32 MiB above the plan, also where planning
has much to do: shards, long unrollings, many shapes, a large store of measured times. Every setting
is one test, and says how much it was above."""
import os
import struct
import sys
import zlib

from ebbtest import SANITIZED, main
from peak_help import ALLOWED, least, lines, run, store

FAST = ["--threads", "2", "--tune", "off"]
LM, NMT = ["--layers", "2"], ["--vocab", "200", "--hidden", "32", "--embed", "32"]
SHORT = list(range(2, 13))
VARIED = [2 + 3 * i for i in range(33)]


def within(name, peak, planned=None):
    planned = planned if planned is not None else peak.planned()
    assert peak.code == 0, f"exit {peak.code}: {peak.err}"
    assert planned is not None, f"no plan was said: {peak.out} {peak.err}"
    over = peak.resident - planned
    print(f"{name}: planned {planned / 2**20:.2f} MiB, resident {peak.resident / 2**20:.2f} MiB, above {over / 2**20:.2f} MiB", flush=True)
    assert over <= ALLOWED, f"{over / 2**20:.2f} MiB above the plan, not at most {ALLOWED >> 20}"


def bench(*args):
    return lambda name: within(name, run(["bench", *args, "--steps", "2", "--json", *FAST]))


def texts(lengths, count=300):
    lines("src", count, lengths)
    lines("tgt", count, lengths[1:] + lengths[:1], seed=2)
    return ["--train", "src", "tgt"]


def shapes(number, *more):
    def test(name):
        within(name, run(["train", "nmt", *texts(VARIED), "--max-len", "120", *NMT, "--batch", "8", "--bucket", "optimal", "--shapes",
                          str(number), "--steps", "2", "--out", "run", *FAST, *more]))
    return test


def validation(*more):
    def test(name):
        within(name, run(["train", "nmt", *texts(SHORT), "--valid", "src", "tgt", *NMT, "--batch", "8", "--steps", "20", "--out", "run",
                          *FAST, *more]))
    return test


def with_store(products):
    def test(name):
        folder = store("store", products)
        within(name, run(["bench", "lm", "--layers", "1", "--hidden", "8", "--bptt", "5", "--batch", "4", "--vocab", "100", "--steps", "2",
                          "--json", "--threads", "2", "--tune", folder]))
    return test


def trained(kind):
    """A run to use; the model is small, so that only what using it takes is seen."""
    if kind == "lm":
        lines("text", 300, SHORT)
        run(["train", "lm", "--train", "text", "--hidden", "32", "--steps", "3", "--out", "run", *FAST])
    else:
        run(["train", "nmt", *texts(SHORT), *NMT, "--batch", "8", "--steps", "3", "--out", "run", *FAST])
    return "run"


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def photos(folder, each, side):
    """Two classes of pictures of one shade, as PNG files of side x side pixels."""
    for label in range(2):
        os.makedirs(f"{folder}/{label}", exist_ok=True)
        for i in range(each):
            rows = zlib.compress((b"\0" + bytes([100 * label + i % 100] * 3 * side)) * side)
            head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
            with open(f"{folder}/{label}/{i}.png", "wb") as file:
                file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    return folder


def interlaced(path, wide, high):
    """A PNG file that cannot be decoded by rows, of one shade. What Python holds counts: it is packed row by row."""
    pack, data = zlib.compressobj(1), b""
    for x, y, across, down in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
        row = b"\0" + b"\x64" * (3 * -((x - wide) // across))
        data += b"".join(pack.compress(row) for _ in range(-((y - high) // down)))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 1)) +
                   chunk(b"IDAT", data + pack.flush()) + chunk(b"IEND", b""))


NET = ["--net", "resnet8_cifar", "--batch", "8", *FAST]


def net_trained(name):
    within(name, run(["train", "cnn", "--train", photos("photos", 20, 600), *NET, "--steps", "4", "--out", "run"]))


def net_used(*args):
    def test(name):
        photos("photos", 20, 600)
        run(["train", "cnn", "--train", "photos", *NET, "--steps", "1", "--out", "run"])
        within(name, run([*args, "--json", *FAST]))
    return test


def whole_images(name):
    """While they are trained on, and while they are looked at."""
    photos("photos", 20, 60)
    interlaced("photos/0/large.png", 4400, 4000)
    within(name, run(["train", "cnn", "--train", "photos", *NET, "--steps", "1", "--out", "run"]))
    within(name, run(["predict", "run", "photos/0/large.png", "--json", *FAST]))


def used(kind, *args, stdin=None):
    def test(name):
        command = [args[0], *args[1:-1], *args[-1].split(), *FAST]
        trained(kind)
        planned = least(command, stdin) if args[0] in ("decode", "generate") else None
        within(name, run([*command, *(["--memory", planned] if planned else [])], stdin), planned)
    return test


SETTINGS = {
    "shards_20": bench("lm", *LM, "--hidden", "200", "--vocab", "2000", "--shards", "20"),
    "shards_32": bench("lm", *LM, "--hidden", "64", "--vocab", "1000", "--batch", "32", "--shards", "32"),
    "shards_32_nmt": bench("nmt", *NMT, "--batch", "32", "--shards", "32"),
    "unrolled_500": bench("lm", *LM, "--hidden", "64", "--bptt", "500", "--batch", "8", "--vocab", "1000"),
    "unrolled_2000": bench("lm", "--layers", "1", "--hidden", "8", "--bptt", "2000", "--batch", "1", "--vocab", "100"),
    "unrolled_2000_gru": bench("lm", "--cell", "gru", "--layers", "1", "--hidden", "16", "--bptt", "2000", "--batch", "2", "--vocab", "100"),
    "layers_8": bench("nmt", *NMT, "--enc-layers", "4", "--dec-layers", "4"),
    "shapes_16": shapes(16),
    "shapes_32": shapes(32),
    "shapes_32_layers_4": shapes(32, "--enc-layers", "2", "--dec-layers", "2"),
    "store_10000": with_store(10000),
    "validation": validation(),
    "validation_bleu": validation("--valid-metric", "bleu"),
    "eval_lm": used("lm", "eval", "lm", "run text --json"),
    "generate": used("lm", "generate", "run --length 20"),
    "eval_nmt": used("nmt", "eval", "nmt", "run src tgt --json"),
    "train_cnn": net_trained,
    "whole_images": whole_images,
    "eval_cnn": net_used("eval", "cnn", "run", "photos"),
    "predict": net_used("predict", "run", *[f"photos/0/{i}.png" for i in range(20)]),
    "decode": used("nmt", "decode", "run", stdin="src"),
}


def named(name, test):
    return lambda: test(name)


if __name__ == "__main__":
    if SANITIZED:
        print("skipped: sanitizers take memory of their own")
        sys.exit(77)
    wanted = sys.argv[1:] or SETTINGS
    main({"test_" + name: named(name, SETTINGS[name]) for name in wanted})
