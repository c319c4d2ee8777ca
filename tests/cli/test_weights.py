"""Which weights of a run are used: --weights best, last, or a file."""
import json
import os
import shutil
import struct

from ebbtest import TINY, ebb, main, metrics, refused, text

RUN = ["train", "lm", *TINY, "--quiet"]


def perplexity(*options):
    return ebb("eval", "lm", "run", "held", *options, "--json").json()["token_perplexity"]



def test_best_last_file():
    train, held = text("good"), text("held")
    ebb(*RUN, "--train", train, "--valid", held, "--epochs", "6", "--lr", "3", "--out", "run")
    seen = [line["valid_perplexity"] for line in metrics("run") if "valid_perplexity" in line]
    best, last = min(seen), seen[-1]
    assert best < last, seen
    near = lambda a, b: abs(a - b) <= 1e-6 * b  # noqa: E731
    assert near(perplexity(), best) and near(perplexity("--weights", "best"), best) and near(perplexity("--weights", "last"), last)
    assert near(perplexity("--weights", "run/last.safetensors"), last)
    shutil.copy("run/last.safetensors", "alone")
    assert near(perplexity("--weights", "alone"), last)
    words = ["generate", "run", "--length", "30"]
    assert ebb(*words, "--weights", "last").out == ebb(*words, "--weights", "alone").out != ebb(*words).out
    refused(7, *words, "--weights", "nowhere", says="nowhere")
    refused(2, *words, "--weights", "", says="--weights")
    ebb("train", "lm", *TINY, "--quiet", "--hidden", "5", "--train", train, "--steps", "1", "--out", "other")
    refused(5, *words, "--weights", "other/last.safetensors", says=["other/last.safetensors", "shape"])
    os.truncate("alone", 1000)
    refused(5, *words, "--weights", "alone", says="alone")


def tensors(path):
    """Of a safetensors file: name to (dtype, shape, numbers)."""
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            part = data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
            out[name] = (t["dtype"], t["shape"], struct.unpack(f"<{len(part) // 4}f", part))
    return out


def as_float(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def test_a_file_of_other_words():
    ebb(*RUN, "--train", text("good"), "--steps", "3", "--out", "run")
    with open("other", "wb") as file:  # as many words, all others
        file.write(open("good", "rb").read().replace(b"w", b"v"))
    ebb(*RUN, "--train", "other", "--steps", "3", "--out", "strange")
    said = refused(5, "generate", "run", "--weights", "strange/last.safetensors", says=["strange/last.safetensors", "another vocabulary"])
    assert "run has" in said
    refused(5, "eval", "lm", "run", "good", "--weights", "strange/last.safetensors", says="another vocabulary")


def test_average():
    train, held = text("good"), text("held")
    ebb(*RUN, "--train", train, "--valid", held, "--steps", "100", "--valid-every", "10", "--keep", "4", "--out", "run")
    kept = sorted(name for name in os.listdir("run") if name.startswith("step-"))
    assert kept == ["step-100.safetensors", "step-70.safetensors", "step-80.safetensors", "step-90.safetensors"], kept
    files = ["run/" + name for name in kept]
    assert open("run/last.safetensors", "rb").read() == open(files[0], "rb").read()
    assert "mean of 4 files" in ebb("average", *files, "mean").err
    parts, mean = [tensors(path) for path in files], tensors("mean")
    assert list(mean) == list(parts[0])
    for name, (dtype, shape, numbers) in mean.items():
        assert (dtype, shape) == parts[0][name][:2]
        assert list(numbers) == [as_float(sum(row) / 4) for row in zip(*(part[name][2] for part in parts), strict=True)], name
    assert perplexity("--weights", "mean") != perplexity() and ebb("generate", "run", "--weights", "mean", "--length", "5").out
    ebb("average", "run", "same", "--quiet")
    assert tensors("same") == tensors("run/best.safetensors")
    ebb("average", "same", files[1], "same")  # an input may be replaced
    assert tensors("same") != tensors("run/best.safetensors")
    ebb(*RUN, "--train", train, "--hidden", "9", "--steps", "1", "--out", "wide")
    ebb(*RUN, "--train", train, "--layers", "2", "--steps", "1", "--out", "deep")
    refused(5, "average", "run", "wide", "bad", says=["wide/", "shape"])
    refused(5, "average", "run", "deep", "bad", says=["deep/", "is not in"])
    refused(5, "average", "deep", "run", "bad", says=["run/", "is missing"])
    refused(7, "average", "run", "nowhere", "bad", says="nowhere")
    refused(2, "average", "run", says="OUT")
    with open("run/best.safetensors", "rb") as best:
        before = best.read()
        refused(2, "average", *files, "run/best.safetensors", says="a run's own")
        best.seek(0)
        assert best.read() == before
    assert not os.path.exists("bad")
    ebb(*RUN, "--train", train, "--steps", "1", "--fresh", "--out", "run")
    assert not [name for name in os.listdir("run") if name.startswith("step-")]


if __name__ == "__main__":
    main(globals())
