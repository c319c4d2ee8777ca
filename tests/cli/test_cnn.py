"""Convolutional nets from the command: trained, resumed, evaluated, asked what images show, on
images of a few pixels that the tests make."""
import base64
import csv
import gzip
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import zlib

import ebbtest
from ebbtest import ebb, idx, main, metrics, NAMES, photos, pixels, png, refused, start, wait_for_step, weights, write

NET = """input {channels} 8 8
conv 6 3 pad 1 nobias
bn
relu
maxpool 2
conv 8 3 pad 1
relu
gap
flatten
dropout 0.1
fc {classes}
"""
RUN = ["--net", "net.txt", "--batch", "8", "--threads", "1", "--lr", "0.1", "--momentum", "0.9"]


def net(channels=1, classes=3):
    return write("net.txt", NET.format(channels=channels, classes=classes))


def trained():
    """A folder of photographs, and a run on it that knows most of them."""
    net(channels=3)
    photos("photos", 40, 1)
    return ebb("train", "cnn", "--train", "photos", *RUN, "--epochs", "6", "--out", "run", "--json").json()


# ---- training ----

def test_killed_and_stopped_it_ends_with_the_same_bits():
    net()
    idx("data", "train", 90, 1)
    train = ["train", "cnn", "--train", "data", *RUN, "--epochs", "12", "--shift", "1", "--flip", "--save-every", "3", "--out"]
    ebb(*train, "whole", "--quiet")
    for folder, how in [("killed", signal.SIGKILL), ("stopped", signal.SIGINT)]:
        process = start(*train, folder, "--quiet")
        wait_for_step(process, folder, 6)
        process.send_signal(how)
        code = process.wait()
        process.stderr.close()
        assert code in (-how, 75), code
        assert ebb(*train, folder, "--json").json()["resumed"]
        assert weights("whole") == weights(folder) and metrics("whole") == metrics(folder), folder
    assert ebb(*train, "whole", "--json").json()["already_done"]
    idx("data", "train", 90, 2)
    refused(2, *train, "whole", says=["is not the set of images", "--fresh"])


def test_parts_of_images():
    """Seen to train on, by seed, epoch and image: a run that was stopped ends with the same bits. Validation sees images as they are."""
    net()
    idx("data", "train", 90, 1)
    train = ["train", "cnn", "--train", "data", *RUN, "--flip", "--quiet"]
    parts = [*train, "--crop", "0.5"]
    ebb(*parts, "--epochs", "6", "--out", "whole")
    for epochs in "2", "3", "6":
        ebb(*parts, "--epochs", epochs, "--out", "stopped")
    ebb(*train, "--epochs", "6", "--out", "plain")
    ebb(*train, "--epochs", "6", "--out", "all", "--crop", "1")
    assert weights("whole") == weights("stopped") and metrics("whole") == metrics("stopped")
    assert weights("plain") == weights("all") != weights("whole")
    best = max(line["valid_top1"] for line in metrics("whole") if "valid_top1" in line)
    assert ebb("eval", "cnn", "whole", "whole/valid.images", "--json").json()["top1"] == best > 0.5
    refused(2, *train, "--crop", "0.4", "--epochs", "7", "--out", "whole", says=["crop", "--fresh"])
    for bad in ["0", "-0.5", "1.1", "x"]:
        refused(2, *train, "--crop", bad, "--out", "other", says="--crop")
    refused(2, *parts, "--shift", "1", "--out", "other", says=["--crop 0.5", "--shift 1"])


def test_nothing_is_allocated_in_a_step():
    """Whatever waits for backward, in whatever form, and whether steps are done again."""
    write("own.txt", "input 3 16 16\n" + "conv 32 3 pad 1; relu\n" * 4 + "maxpool 2; bn; relu; gap; flatten; dropout 0.2; fc 3\n")
    bench = ["bench", "cnn", "--net", "own.txt", "--batch", "24", "--steps", "4", "--momentum", "0.9", "--json"]
    for more in [[], ["--disable", "recompute,chunk", "--density", "0.9"], ["--disable", "recompute,chunk", "--density", "0.1"], ["--chunk", "net"],
                 ["--stash", "fp8"], ["--stash", "fp10", "--chunk", "segment"], ["--freeze", "conv1.*"]]:
        for memory in [None, ebb("plan", *bench[1:], *more).json()["least_bytes"]]:
            result = ebb(*bench, *more, *(["--memory", memory] if memory else [])).json()
            assert result["allocations_after_first_step"] == 0, (more, memory, result)
            assert result["planned_peak_bytes"] == result["measured_peak_bytes"], (more, memory, result)


def test_one_class_is_refused():
    net(channels=3)
    photos("photos", 6, 1, NAMES[:1])
    for name in "net.txt", "resnet8_cifar":
        refused(3, "train", "cnn", "--train", "photos", "--net", name, "--out", "run", says=["photos", "one class"])
    photos("photos", 6, 1)
    for name in NAMES:
        for i in range(6):
            write(f"photos/{name}/{i:03}.png", "no image")
    said = ebb("train", "cnn", "--train", "photos", *RUN, "--out", "run", "--bad", "skip", expect=3).err
    assert "of the 18 images could be decoded" in said.splitlines()[-1], said


def test_folders_of_photographs_of_any_size():
    net(channels=3)
    dice = random.Random(1)
    for name in NAMES:
        os.makedirs("photos/" + name)
        for i in range(8):
            image = pixels(dice, NAMES.index(name), dice.randrange(8, 30), 3)
            png(f"photos/{name}/{i}.png", image[:dice.randrange(5, len(image) + 1)])
    result = ebb("train", "cnn", "--train", "photos", *RUN, "--epochs", "1", "--hold", "0.2", "--out", "run", "--json").json()
    assert result["planned_peak_bytes"] == result["measured_peak_bytes"]
    assert json.load(open("run/images.json"))["names"] == NAMES
    os.mkdir("photos/empty")
    refused(3, "train", "cnn", "--train", "photos", *RUN, "--out", "other", says=["photos/empty", "no PNG or JPEG"])
    os.rmdir("photos/empty")
    data = open("photos/down/3.png", "rb").read()
    write("photos/down/3.png", data[:len(data) // 2])
    refused(3, "train", "cnn", "--train", "photos", *RUN, "--out", "other", says="photos/down/3.png")
    said = ebb("train", "cnn", "--train", "photos", *RUN, "--epochs", "1", "--hold", "0.2", "--out", "other", "--bad", "skip").err
    assert len(re.findall(r"warning: image photos/down/3.png: .*left out", said)) == 1, said


def test_classes_to_validate_on_are_found_by_name():
    """A folder to validate on need not have all classes: what it has keeps its number."""
    net(channels=3)
    photos("photos", 20, 1)
    photos("held", 10, 2, NAMES[1:])
    train = ["train", "cnn", "--train", "photos", "--valid", "held", *RUN, "--epochs", "6", "--out", "run", "--json"]
    assert ebb(*train).json()["best_top1"] > 0.8
    assert ebb(*train).json()["already_done"]
    found = ebb("eval", "cnn", "run", "held", "--json").json()
    assert [c["images"] for c in found["classes"]] == [0, 10, 10] and found["top1"] > 0.8
    os.rename("held/both", "held/new")
    refused(3, "eval", "cnn", "run", "held", says=["held/new/000.png", "new"])
    refused(3, *train[:-3], "--out", "other", says=["held/new/000.png", "new"])


def test_budgets():
    net()
    idx("data", "train", 60, 1)
    plan = ["plan", "cnn", "--train", "data", *RUN, "--json"]
    least = ebb(*plan).json()["least_bytes"]
    train = ["train", "cnn", "--train", "data", *RUN, "--epochs", "1"]
    whole = ebb(*train, "--out", "a", "--json").json()
    small = ebb(*train, "--out", "b", "--memory", least, "--json").json()
    assert small["planned_peak_bytes"] == small["measured_peak_bytes"] <= least <= whole["planned_peak_bytes"]
    assert weights("a") == weights("b")
    said = ebb(*train, "--out", "c", "--memory", least - 1, expect=4).err
    assert str(least) in said.splitlines()[-1], said
    assert ebb("plan", "cnn", "--train", "data", *RUN[:2], "--batch", "auto", "--memory", "300K", "--json").json()["peak_bytes"] <= 300 << 10


def test_a_batch_is_chosen_of_what_is_trained_on():
    net()
    idx("data", "train", 20, 1)
    train = ["train", "cnn", "--train", "data", "--net", "net.txt", "--batch", "auto", "--memory", "1M", "--threads", "1", "--steps", "2", "--hold"]
    assert ebb(*train, "0.4", "--out", "a", "--json").json()["batch"] <= 11
    idx("data", "t10k", 20, 2)
    assert ebb(*train, "0.4", "--valid", "data", "--out", "b", "--json").json()["batch"] == 16


def test_bytes_by_form_and_images_a_second():
    """What waits for backward, by the form it waits in; nothing of it is called words."""
    model = ["cnn", "--net", "nin", "--size", "64", "--batch", "8", "--threads", "1", "--json"]
    plain = ebb("plan", *model, "--disable", "encode,recompute,chunk").json()
    coded = ebb("plan", *model, "--disable", "recompute,chunk").json()
    for shown in plain, coded:
        assert sum(shown["forms"].values()) == shown["bytes_by_kind"]["stash"] and shown["chunk_images"] == 0
        assert abs(shown["images_per_second"] * shown["seconds_per_step"] - 8) < 1e-6
    assert plain["forms"]["dense"] > 0 and sum(plain["forms"].values()) == plain["forms"]["dense"]
    assert coded["forms"]["sign"] > 0 and coded["forms"]["index"] > 0 and coded["forms"]["dense"] < plain["forms"]["dense"]
    model = ["cnn", "--net", "lenet", "--batch", "64", "--threads", "1", "--json"]
    cut = ["--chunk", "net", "--memory", ebb("plan", *model, "--chunk", "net").json()["least_bytes"]]
    bench, shown = ebb("bench", *model, *cut, "--steps", "1").json(), ebb("plan", *model, *cut).json()
    assert bench["chunk_images"] == shown["chunk_images"] > 0 and sorted(bench["forms"]) == sorted(shown["forms"])
    net()
    idx("data", "train", 40, 1)
    done = ebb("train", "cnn", "--train", "data", *RUN, "--steps", "4", "--log-every", "2", "--tensorboard", "board", "--out", "run", "--json")
    events = b"".join(open("board/" + name, "rb").read() for name in os.listdir("board"))
    lines = [json.loads(line) for line in open("run/metrics.jsonl")]
    assert all(line["images_per_second"] > 0 for line in lines) and b"train/images_per_second" in events
    for said in json.dumps([plain, bench, lines, done.json()]), done.err, events.decode("latin1"):
        assert "word" not in said and "token" not in said, said


def numbers(text, base):
    """Of a table's cells: '-', '12', '3.4k'."""
    return 0 if text == "-" else float(text.rstrip("kMG")) * base ** " kMG".index(text[-1] if text[-1] in "kMG" else " ")


def test_table_of_layers():
    """A line a layer, of a long net fewer; what is in it adds up to what JSON says of all layers."""
    for model, most in [(["lenet"], 12), (["resnet50", "--size", "64", "--batch", "8"], 42), (["googlenet", "--size", "64", "--batch", "8"], 42),
                        (["resnet110_cifar", "--batch", "8"], 42)]:
        plan = ["plan", "cnn", "--net", *model, "--threads", "1"]
        shown = ebb(*plan, "--json").json()
        lines = ebb(*plan).out.splitlines()
        head = next(i for i, line in enumerate(lines) if line.split()[:2] == ["layer", "output"])
        rows = lines[head + 1:-2]
        assert len(rows) <= most + 2 and max(map(len, lines)) <= 100, (model, len(rows))
        assert rows[0].split()[0] == "data" and rows[-1].split()[0] == "all"
        layers = shown["layers"]
        kept = [sum(v for k, v in one["kept_bytes"].items() if (k == "dense") == dense) for dense in (True, False) for one in layers]
        sums = [sum(one["parameters"] for one in layers), sum(one["flops"] for one in layers), sum(kept[:len(layers)]), sum(kept[len(layers):]),
                sum(one["recomputed_bytes"] for one in layers)]
        for column, (total, base) in enumerate(zip(sums, [1000, 1000, 1024, 1024, 1024])):
            said = [numbers(row.split()[-5 + column], base) for row in rows]
            assert abs(said[-1] - total) <= 0.05 * total + 1, (model, column, said[-1], total)
            assert abs(sum(said[:-1]) - total) <= 0.05 * total + 1, (model, column, sum(said[:-1]), total)
        assert len(ebb(*plan, "--verbose").out.splitlines()) == len(lines) - len(rows) + len(layers) + 1
    # Parameters are those of the net as it is known; a convolution's shape and work by hand.
    layers = {one["layer"]: one for one in ebb("plan", "cnn", "--net", "resnet50", "--threads", "1", "--batch", "8", "--json").json()["layers"]}
    assert sum(one["parameters"] for one in layers.values()) == 25557032
    assert layers["conv1"]["output"] == [64, 112, 112] and layers["conv1"]["what"] == "conv 7 stride 2"
    assert layers["conv1"]["flops"] == 2 * 64 * 112 * 112 * 3 * 7 * 7 and layers["fc"]["output"] == [1000]
    net()
    idx("data", "train", 40, 1)
    train = ["train", "cnn", "--train", "data", *RUN, "--steps", "1"]
    assert re.search(r"^  conv1 +conv 3 +6x8\^2 +54 ", ebb(*train, "--out", "a").err, re.M)
    assert "conv1" not in ebb(*train, "--out", "b", "--quiet").err


def test_what_decisions_bought():
    """By layer and form, with bytes and seconds; the picture of a step has a colour for each form."""
    plan = ["plan", "cnn", "--net", "nin", "--size", "64", "--batch", "8", "--threads", "1", "--density", "none", "--disable", "recompute,chunk"]
    shown = ebb(*plan, "--json").json()
    bought = {form: [one for one in shown["decisions"] if one["form"] == form] for form in ["sign", "index"]}
    assert bought["sign"] and bought["index"] and len(shown["decisions"]) == sum(map(len, bought.values()))
    assert all(one["nodes"] > 0 and one["seconds"] > 0 for one in shown["decisions"])
    coded = {one["layer"]: one["kept_bytes"] for one in shown["layers"]}
    for one in shown["decisions"]:  # what waits in that form is of the layer that says so
        assert coded[one["layer"]][one["form"]] > 0
    kept = ebb(*plan[:-1], "recompute,chunk,encode", "--json").json()
    saved = sum(one["bytes"] for one in shown["decisions"])
    whole = [sum(sum(one["kept_bytes"].values()) for one in each["layers"]) for each in (kept, shown)]
    whole[0] -= 3 * 64 * 64 * 8 * 4  # images wait as the bytes they are, which are there anyway
    assert saved == whole[0] - whole[1] and kept["decisions"] == [], (saved, whole)
    both = ["plan", "cnn", "--net", "nin", "--size", "64", "--batch", "8", "--threads", "1", "--disable", "recompute,chunk", "--json"]
    heap = ebb(*both, "--memory", ebb(*both).json()["least_bytes"]).json()  # what shares a heap has its part of that
    whole[1] = sum(sum(one["kept_bytes"].values()) for one in heap["layers"])
    assert abs(sum(one["bytes"] for one in heap["decisions"]) - (whole[0] - whole[1])) <= 64 and heap["forms"]["sparse"] > 0
    said = ebb(*plan, "--explain").out
    for one in shown["decisions"]:
        assert re.search(r"^  " + re.escape(one["layer"]) + r" +" + one["form"] + r" +\d+ ", said, re.M)
    assert re.search(r"^  encoded +\d+ nodes for ", ebb(*plan).out, re.M)
    ebb(*plan, "--svg", "step.svg")
    words = re.findall(r"<text[^>]*>([^<]*)<", open("step.svg").read())
    assert "colour: form of the stash" in words
    for form, count in shown["forms"].items():
        assert (form in words) == (count > 0)


def test_shards():
    """Parts of the batch: the same bits whatever the plan, with statistics that each part has of its own."""
    net()
    idx("data", "train", 60, 1)
    idx("data", "t10k", 21, 2)  # the last batch is not full
    train = ["train", "cnn", "--train", "data", "--valid", "data", *RUN, "--epochs", "2", "--shards"]
    least = ebb("plan", "cnn", "--train", "data", "--valid", "data", *RUN, "--shards", "4", "--json").json()["least_bytes"]
    ebb(*train, "4", "--out", "four", "--quiet")
    for more in [["--threads", "2"], ["--memory", least], ["--disable", "chunk,encode,recompute"], ["--disable", "turns,simplify"], ["--lanes", "1"]]:
        result = ebb(*train, "4", "--out", "other", "--fresh", *more, "--json").json()
        assert result["planned_peak_bytes"] == result["measured_peak_bytes"]
        assert weights("other") == weights("four"), more
    ebb(*train, "4", "--out", "none", "--memory", least - 1, expect=4)
    ebb(*train, "1", "--out", "one", "--quiet")
    assert weights("one") != weights("four")
    best = max((line for line in metrics("four") if "valid_top1" in line), key=lambda line: line["valid_top1"])
    found = ebb("eval", "cnn", "four", "data", "--json").json()
    assert (found["images"], found["top1"], found["top5"]) == (21, best["valid_top1"], best["valid_top5"])
    whole = ebb("eval", "cnn", "four", "data", "--shards", "1", "--json").json()
    assert whole["confusion"] == found["confusion"] and abs(whole["loss"] - found["loss"]) < 1e-6
    refused(2, *train, "3", "--out", "none", says=["--shards 3", "--batch 9"])
    refused(2, *train, "4", "--lanes", "4", "--out", "none", says=["--lanes 4", "2 images of a shard"])
    bench = ["bench", "cnn", "--net", "resnet8_cifar", "--size", "16", "--batch", "32", "--steps", "1", "--threads", "1", "--json", "--shards"]
    found = {shards: ebb(*bench, shards).json() for shards in ["1", "2", "8"]}
    assert found["8"]["planned_peak_bytes"] < found["2"]["planned_peak_bytes"] < found["1"]["planned_peak_bytes"]
    for density in ["0.1", "0.9"]:
        other = ebb(*bench, "2", "--disable", "recompute", "--density", density).json()
        assert other["weights_hash"] == found["2"]["weights_hash"] and other["planned_peak_bytes"] == other["measured_peak_bytes"]


def test_sparse_maps():
    """Whatever share of the maps has room: the same bits, and steps that do not fit are counted."""
    bench = ["bench", "cnn", "--net", "nin", "--size", "64", "--batch", "16", "--steps", "2", "--disable", "recompute", "--json"]
    whole = ebb(*bench, "--density", "none").json()
    assert whole["sparse_reserved_bytes"] == whole["sparse_used_bytes"] == whole["fallback_steps"] == 0
    for density, most in [("0.1", 4), ("0.8,0.85", 0)]:
        least = ebb("plan", *bench[1:], "--density", density).json()["least_bytes"]
        plan, result = (ebb(one, *bench[1:], "--density", density, "--memory", least).json() for one in ["plan", "bench"])
        assert result["weights_hash"] == whole["weights_hash"], density
        assert result["planned_peak_bytes"] == result["measured_peak_bytes"] < whole["planned_peak_bytes"]
        assert result["allocations_after_first_step"] == 0 and result["fallback_steps"] == most, result
        assert 0 < plan["sparse_reserved_bytes"] == result["sparse_reserved_bytes"] >= result["sparse_used_bytes"]
        assert (result["sparse_used_bytes"] > 0) == (most == 0)
        assert ebb(*bench, "--density", density, "--threads", "1").json()["weights_hash"] == whole["weights_hash"]
    for bad in ["0", "1.1", "0.5,", ",0.5", "0.5,2", "x", "0.5 0.6", "0.5,0.6,0.7", "-0.5"]:
        refused(2, "plan", "cnn", "--density", bad, says=["--density", bad])


def test_forms_of_gist_alone():
    """Codes of what waits, and nothing else: whole batches, nothing repeated; the same bits, and more bytes than with every way there is."""
    model = ["cnn", "--net", "nin", "--size", "64", "--batch", "16", "--threads", "1", "--json"]
    plain = ebb("bench", *model, "--steps", "1").json()["weights_hash"]
    smallest = {}
    for encode in "gist", "auto":
        plan = ebb("plan", *model, "--encode", encode, "--curve").json()
        smallest[encode] = plan["least_bytes"]
        said = {word for one in plan["curve"] for word in one["decided"].split(", ")}
        assert (said <= {"all kept", "packed", "encoded", "encoded and sparse"}) == (encode == "gist") and "encoded and sparse" in said, said
    assert smallest["auto"] < smallest["gist"] < plan["keep_all_bytes"]
    at = ["--encode", "gist", "--memory", smallest["gist"]]
    plan = ebb("plan", *model, *at).json()
    assert plan["recomputed_nodes"] == plan["chunk_images"] == 0 and min(plan["forms"][form] for form in ["sign", "index", "sparse"]) > 0
    bench = ebb("bench", *model, *at, "--steps", "1").json()
    assert bench["weights_hash"] == plain and bench["planned_peak_bytes"] == bench["measured_peak_bytes"] <= smallest["gist"], bench
    ebb("plan", *model, "--encode", "gist", "--memory", smallest["gist"] - 1, expect=4)
    rounded = [*model, "--stash", "fp8"]
    least = ebb("plan", *rounded, "--encode", "gist").json()["least_bytes"]
    assert ebb("plan", *rounded).json()["least_bytes"] < least < smallest["gist"]
    bench = [ebb("bench", *rounded, *more, "--steps", "1").json()["weights_hash"] for more in [["--encode", "gist", "--memory", least], []]]
    assert bench[0] == bench[1] != plain


def test_rounded_stash():
    """What waits for backward in few bits: other bits than without, the same whatever the plan."""
    net()
    idx("data", "train", 60, 1)
    hashes = {}
    for stash in ["none", "fp16", "fp10", "fp8"]:
        bench = ["bench", "cnn", *RUN[:2], "--batch", "24", "--momentum", "0.9", "--steps", "3", "--stash", stash, "--json"]
        plan = ebb("plan", *bench[1:]).json()
        assert plan["stash"] == stash
        seen = set()
        for more in [["--disable", "encode"], ["--disable", "encode", "--disable", "simplify"], ["--disable", "recompute", "--chunk", "segment"],
                     ["--memory", plan["least_bytes"]], ["--threads", "1", "--chunk", "net"]]:
            result = ebb(*bench, *more).json()
            assert result["planned_peak_bytes"] == result["measured_peak_bytes"] and result["stash"] == stash, (stash, more)
            seen.add(result["weights_hash"])
        assert len(seen) == 1, (stash, seen)
        hashes[stash] = seen.pop()
        keep_all = hashes.setdefault("keep", plan["keep_all_bytes"])
        assert plan["keep_all_bytes"] == keep_all
    assert len(set(hashes.values())) == 5, hashes
    train = ["train", "cnn", "--train", "data", *RUN, "--out", "run", "--stash", "fp8"]
    result = ebb(*train, "--epochs", "1", "--json").json()
    assert result["stash"] == "fp8" and "stash = fp8" in open("run/config").read()
    refused(2, *train[:-2], "--epochs", "2", says="stash")
    ebb("eval", "cnn", "run", "run/valid.images", "--quiet")
    refused(2, *train[:-1], "fp4", says=["--stash", "fp16"])


def test_the_net_is_found_from_elsewhere():
    """A net's name is no path, its file is one; both wherever the run is used."""
    idx("data", "train", 20, 1, side=28)
    os.makedirs("deep/below")
    out = os.path.abspath("run")
    ebb("train", "cnn", "--train", "data", "--net", "lenet", "--batch", "8", "--hold", "0.2", "--steps", "1", "--out", out, "--quiet")
    ebb("eval", "cnn", "run", "run/valid.images", "--quiet")
    ebb("eval", "cnn", "../../run", "../../run/valid.images", cwd="deep/below")
    net()
    idx("small", "train", 20, 1)
    ebb("train", "cnn", "--train", "small", *RUN, "--hold", "0.2", "--steps", "1", "--out", "own", "--quiet")
    ebb("eval", "cnn", "../../own", "../../own/valid.images", cwd="deep/below")


def test_what_does_not_fit_together():
    net()
    idx("data", "train", 20, 1)
    photos("photos", 4, 1)
    train = ["train", "cnn", "--out", "run"]
    refused(2, *train, says="needs --train")
    refused(2, *train, "--train", "data", "--net", "resnet5O", says=["--net resnet5O", "did you mean resnet50?"])
    refused(2, *train, "--train", "data", "--net", "resnet21_cifar", says="6n + 2")
    refused(2, *train, "--train", "data", "--net", "net.txt", "--classes", "4", says=["--classes 4", "have 3"])
    idx("more", "train", 20, 1, classes=5)
    refused(2, *train, "--train", "more", "--net", "net.txt", says=["of 5 classes", "tells 3 apart"])
    refused(2, *train, "--train", "more", "--net", "resnet8_cifar", "--classes", "4", says=["of 5 classes", "--classes 5"])
    idx("large", "train", 20, 1, side=9)
    refused(2, *train, "--train", "large", "--net", "net.txt", says=["large: images are 9 x 9", "takes 8 x 8"])
    refused(3, *train, "--train", "nowhere", "--net", "net.txt", says="nowhere")
    refused(3, *train, "--train", "photos/down", "--net", "net.txt", says=["photos/down", "no folders of classes"])
    refused(2, *train, "--train", "data", "--net", "net.txt", "--batch", "8", "--lanes", "3", says="--lanes 3")
    assert not os.path.exists("run/config")
    said = ebb("help", "cnn").out
    assert "train cnn --train" in said and "predict DIR" in said and "decode" not in said and "nmt" not in said


# ---- data ----

def npy(path, kind, shape, data, order="False", version=1):
    """As numpy.save writes it."""
    text = f"{{'descr': '{kind}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    start = 10 if version == 1 else 12
    text += b" " * (-(start + len(text) + 1) % 64) + b"\n"
    return write(path, b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data)


def test_numpy_files_are_what_idx_files_are():
    net()
    idx("data", "train", 60, 1)
    pixels_of = open("data/train-images-idx3-ubyte", "rb").read()[16:]
    labels = open("data/train-labels-idx1-ubyte", "rb").read()[8:]
    os.makedirs("np")
    npy("np/train-images.npy", "|u1", "(60, 8, 8)", pixels_of)
    npy("np/train-labels.npy", "<i8", "(60, 1)", struct.pack("<60q", *labels))
    npy("own-images.npy", "|u1", "(60, 8, 8, 1)", pixels_of, version=2)
    npy("own-labels.npy", "|u1", "(60,)", labels)
    train = ["train", "cnn", *RUN, "--epochs", "1", "--quiet"]
    ebb(*train, "--train", "data", "--out", "a")
    ebb(*train, "--train", "np", "--out", "b")
    ebb(*train, "--train", "own-images.npy", "--out", "c")
    assert weights("a") == weights("b") == weights("c")
    for kind, shape, order, says in [("<f4", "(15, 8, 8)", "False", "type '<f4'"), ("|u1", "(60, 8, 8)", "True", "Fortran"), ("|u1", "(61, 8, 8)", "False", "ends early"),
                                     ("|u1", "(59, 8, 8)", "False", "goes on after its end"), ("|u1", "(60, 64)", "False", "[N,Y,X]"),
                                     ("|u1", "(60, 8, 8, 1, 1)", "False", "axes"), ("|i1", "(60, 8, 8)", "False", "without a sign"),
                                     ("|u1", "(99999999999999999999, 8, 8)", "False", "header"), ("|u1", "(0, 8, 8)", "False", "[N,Y,X]")]:
        npy("own-images.npy", kind, shape, pixels_of, order)
        refused(3, *train, "--train", "own-images.npy", "--out", "d", says=["own-images.npy", says])
    npy("own-images.npy", "|u1", "(60, 8, 8)", pixels_of)
    for kind, shape, data, says in [("|u1", "(59,)", labels[1:], "60 numbers"), ("<i4", "(60,)", struct.pack("<60i", *[-1] * 60), "label 0 is not a number"),
                                    ("<i4", "(60,)", struct.pack("<60i", *[65536] * 60), "label 0 is not a number"), (">i4", "(60,)", bytes(240), "little-endian"),
                                    ("|u1", "(60,)", labels[1:], "ends early")]:
        npy("own-labels.npy", kind, shape, data)
        refused(3, *train, "--train", "own-images.npy", "--out", "d", says=["own-labels.npy", says])
    os.remove("own-labels.npy")
    refused(3, *train, "--train", "own-images.npy", "--out", "d", says=["own-images.npy", "labels are not there"])


def test_images_can_be_made_ahead():
    net(channels=3)
    photos("photos", 12, 1)
    build = ["data", "build", "--cnn", "photos", "--net", "net.txt", "--hold", "0.25", "--out", "run"]
    made = {os.path.basename(one["path"]): one for one in ebb(*build, "--json").json()["files"]}
    assert sorted(made) == ["train.images", "valid.images"] and all(one["made"] and one["kind"] == "images" for one in made.values())
    assert sum(one["images"] for one in made.values()) == 36 and made["train.images"]["classes"] == 3
    assert made["train.images"]["bytes"] == os.path.getsize("run/train.images")
    assert "run/train.images: found, " in ebb(*build).out
    train = ["train", "cnn", "--train", "photos", *RUN, "--hold", "0.25", "--epochs", "1", "--quiet"]
    before = os.stat("run/train.images").st_mtime_ns
    ebb(*train, "--out", "run")
    ebb(*train, "--out", "other")
    assert os.stat("run/train.images").st_mtime_ns == before and weights("run") == weights("other")
    ebb(*build)  # of the run that is there
    write("photos/down/bad.png", b"\x89PNG\r\n\x1a\n")
    refused(3, *build, says="photos/down/bad.png")
    assert "photos/down/bad.png" in ebb(*build[:-1], "more", "--bad", "skip").err
    os.remove("photos/down/bad.png")
    photos("photos", 13, 2)
    refused(2, *build, says=["run: holds a run", "another set of images"])
    refused(2, "data", "build", "--out", "x", says="--cnn PATH")


def test_a_run_keeps_its_net():
    """A copy of the net's file: the run can be used without it, and does not go on with another one."""
    trained()
    assert open("run/net.txt").read() == open("net.txt").read()
    found = ebb("eval", "cnn", "run", "run/valid.images", "--json").json()
    os.makedirs("elsewhere")
    shutil.move("run", "elsewhere/run")
    write("net.txt", NET.format(channels=3, classes=3).replace("conv 8 3 pad 1", "conv 8 3"))
    assert ebb("eval", "cnn", "elsewhere/run", "elsewhere/run/valid.images", "--json").json() == found
    os.remove("net.txt")
    assert ebb("eval", "cnn", "elsewhere/run", "elsewhere/run/valid.images", "--json").json() == found
    answers = ebb("predict", "elsewhere/run", "photos/down/000.png", "photos/both/001.png").out
    assert answers.count("\n") == 2
    shutil.move("elsewhere/run", "run")
    train = ["train", "cnn", "--train", "photos", *RUN, "--quiet"]
    ebb(*train, "--epochs", "7", "--out", "run")  # goes on with its copy
    other = [*train[:4], "--net", "other.txt", *RUN[2:], "--quiet"]
    refused(2, *other, "--epochs", "8", "--out", "run", says="other.txt")
    for more in [["--out", "run", "--fresh"], ["--out", "new"]]:
        refused(2, *train, "--epochs", "7", *more, says=["--net net.txt", "is no file"])
    net(channels=3)
    ebb(*train, "--epochs", "7", "--out", "unbroken")
    assert weights("unbroken") == weights("run")
    write("net.txt", NET.format(channels=3, classes=3).replace("conv 8 3 pad 1", "conv 8 3"))
    refused(2, "train", "cnn", "--train", "photos", *RUN, "--epochs", "8", "--out", "run", says=["net.txt", "not what it was"])


LEAKY = "\n".join("""[net] height=8 width=8 channels=1 [convolutional] batch_normalize=1 filters=6 size=3 pad=1 activation=leaky
[maxpool] size=2 stride=2 [convolutional] filters=8 size=3 pad=1 activation=leaky [avgpool] [connected] output=3 activation=linear [softmax]""".split())


def test_leaky_relus_of_darknet():
    """Trained as it is, and in ebb's own form: the same bits whatever the plan; signs wait in bits, and there are no zeros to leave out."""
    write("leaky.cfg", LEAKY)
    write("leaky.txt", "input 1 8 8\nconv 6 3 pad 1 nobias; bn; relu slope 0.1; maxpool 2\nconv 8 3 pad 1; relu slope 0.1; gap; flatten; fc 3\n")
    idx("data", "train", 90, 1)
    train = ["train", "cnn", "--train", "data", "--net", "leaky.cfg", *RUN[2:], "--epochs", "8"]
    result = ebb(*train, "--out", "run", "--json").json()
    assert result["best_top1"] > 0.6 and result["planned_peak_bytes"] == result["measured_peak_bytes"], result
    least = ebb("plan", *train[1:2], "--train", "data", *train[4:-2], "--json").json()["least_bytes"]
    assert ebb(*train, "--out", "least", "--memory", least, "--json").json()["measured_peak_bytes"] <= least
    assert weights("run") == weights("least")
    write("none.txt", open("leaky.txt").read().replace("0.1", "0"))
    hashes = {}
    for own in ["leaky.cfg", "leaky.txt", "none.txt"]:
        bench = ["bench", "cnn", "--net", own, *RUN[2:], "--steps", "2", "--json"]
        hashes[own] = {ebb(*bench, *more).json()["weights_hash"]
                       for more in [[], ["--disable", "encode,recompute,chunk"], ["--threads", "2"], ["--disable", "recompute"]]}
        assert len(hashes[own]) == 1, hashes
    assert hashes["leaky.txt"] != hashes["none.txt"]
    plan = ["plan", "cnn", *RUN[2:], "--disable", "recompute,chunk", "--json", "--net", "leaky.txt"]
    plan = ebb(*plan, "--memory", ebb(*plan).json()["least_bytes"]).json()
    assert plan["sparse_reserved_bytes"] == 0 and plan["forms"]["sign"] > 0
    write("bad.txt", open("leaky.txt").read().replace("0.1", "-0.1"))
    refused(3, "plan", "cnn", "--net", "bad.txt", says=["bad.txt:2", "slope"])


def test_nets_that_are_unusual():
    """A window that no code can number waits as it is; slopes below 0 as darknet's leaky has them."""
    head = "input 3 32 32\nconv 8 3 pad 1\n"
    for text in ["maxpool 17 5\n", "relu slope 0.1\nconv 8 3\nrelu\n"]:
        write("own.txt", head + text + "gap\nflatten\nfc 10\n")
        bench = ["bench", "cnn", "--net", "own.txt", "--batch", "9", "--steps", "2", "--json"]
        whole = ebb(*bench, "--disable", "encode,recompute,chunk").json()
        small = ebb(*bench, "--memory", ebb("plan", *bench[1:]).json()["least_bytes"]).json()
        assert small["weights_hash"] == whole["weights_hash"], text
    hashes = []
    for text in ["", "relu slope 1\n", "relu slope 0.5\n"]:  # with 1 it is as if it were not there
        write("own.txt", head + text + "conv 8 3\nrelu\ngap\nflatten\nfc 10\n")
        hashes.append(ebb(*bench).json()["weights_hash"])
    assert hashes[0] == hashes[1] != hashes[2]
    write("leaky.cfg", "[net]\nheight=16\nwidth=16\nchannels=3\n[convolutional]\nbatch_normalize=1\nfilters=8\nsize=3\nstride=1\npad=1\n"
          "activation=leaky\n[maxpool]\nsize=2\nstride=2\n[convolutional]\nfilters=4\nsize=1\nstride=1\npad=1\nactivation=leaky\n[avgpool]\n[softmax]\n")
    ebb("bench", "cnn", "--net", "leaky.cfg", "--batch", "4", "--steps", "1")


def test_nets_that_cannot_be():
    """One line that says where and what."""
    head = "input 3 32 32\n"
    for text, says in [("input 5 8 8\nflatten\nfc 3\n", "at most 20000 and 4"), ("input 3 20001 20001\nconv 4 3 stride 99\nflatten\nfc 3\n", "20001 pixels on a side"),
                       ("input 1 8 8\nflatten\nfc 1\n", "tells 1 class(es) apart"), ("input 1 8 8\nflatten\nfc 65537\n", "2 to 65536"),
                       ("input 1 5000 5000\ngap\nflatten\nfc 3\n", ":2: layer 'gap1': its map of 1x5000x5000")]:
        write("bad.txt", text)
        for command in "plan", "bench":
            refused(3, command, "cnn", "--net", "bad.txt", says=["bad.txt", says])
    for text, says in [("foo 3\n", ":2: no layer is called 'foo'"), ("conv 8 3\nmaxpool 40\nflatten\nfc 10\n", "larger than its map"),
                       ("conv 8 3 groups 2\nflatten\nfc 10\n", "groups do not divide"), ("x: conv 8 3\ny: conv 8 5 from=x\nadd x y\nflatten\nfc 10\n", "which differ"),
                       ("repeat 1000000 { conv 8 3 pad 1 }\nflatten\nfc 10\n", "more than 65535 layers"), ("relu\n" * 10**6 + "flatten\nfc 10\n", "more than the 4194304"),
                       ("conv 8 3\nflatten\nflatten\nfc 10\n", ":4: layer 'flatten2': flatten needs a map"), ("gap\nflatten\n", "nothing to learn"),
                       ("conv 8 3\n", "ends with a map"), ("conv 99999999999 3\n", "no number"), ("conv 16777216 1\n", "elements"), ("conv 8 \0", "zero byte")]:
        write("bad.txt", head + text)
        refused(3, "plan", "cnn", "--net", "bad.txt", says=["bad.txt", says])


# ---- report ----

def test_report_shows_what_is_taken_for_what():
    trained()
    found = ebb("eval", "cnn", "run", "run/valid.images", "--json").json()
    ebb("report", "run", "page.html")
    page = open("page.html").read()
    assert "<h2>Classes</h2>" in page and "top-1 accuracy, the best" in page and "images a second" in page
    assert "perplexity" not in page.lower() and "words" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    for row, counts in enumerate(found["confusion"]):
        for column, count in enumerate(counts):
            assert (f"{NAMES[row]} said to be {NAMES[column]}: {count} of {sum(counts)}<" in page) == (count > 0)
    os.remove("run/valid.images")
    ebb("report", "run", "page.html")
    assert "Nothing can be said" in open("page.html").read()


def unpack_png(data):
    """Rows of bytes of a PNG without interlacing, one or three bytes a pixel."""
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    each, raw, rows = {0: 1, 2: 3}[colour], zlib.decompress(packed), []
    assert depth == 8
    above = bytes(width * each)
    for y in range(height):
        how, row = raw[y * (width * each + 1)], bytearray(raw[y * (width * each + 1) + 1:(y + 1) * (width * each + 1)])
        for i in range(len(row)):
            a, b, c = row[i - each] if i >= each else 0, above[i], above[i - each] if i >= each else 0
            paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            row[i] = (row[i] + [0, a, b, (a + b) // 2, paeth][how]) % 256
        rows.append(bytes(row))
        above = rows[-1]
    return rows


def test_wrong_answers_are_shown():
    """The surest of them, these first, with the images themselves: in JSON, on the page of a run and of an evaluation."""
    net(channels=3)
    photos("photos", 30, 1)
    photos("held", 12, 3)
    ebb("train", "cnn", "--train", "photos", *RUN, "--epochs", "1", "--out", "run", "--quiet")
    found = ebb("eval", "cnn", "run", "held", "--json", "--html", "held.html").json()
    wrong = found["worst_images"]
    assert len(wrong) == min(24, sum(map(sum, found["confusion"])) - sum(found["confusion"][k][k] for k in range(3))) > 0
    answers = ebb("predict", "run", *[f"held/{name}/{i:03}.png" for name in NAMES for i in range(12)], "--json").json()["images"]
    expected = []
    for at, answer in enumerate(answers):
        best = answer["best"][0]
        if best["class"] != at // 12:
            expected.append((-best["probability"], at, at // 12, best["class"]))
    expected = sorted(expected)[:24]
    assert [(one["image"], one["class"], one["said"]) for one in wrong] == [one[1:] for one in expected]
    assert all(abs(one["probability"] + other[0]) < 1e-6 for one, other in zip(wrong, expected))
    page = open("held.html").read()
    shown = re.findall(r'<img alt="image (\d+)" src="data:image/png;base64,([^"]+)"><b>(\w+)</b><span class="bad">(\w+) ([0-9.]+)%</span>', page)
    assert [(int(n), NAMES.index(a), NAMES.index(b)) for n, _, a, b, _ in shown] == [one[1:] for one in expected]
    for number, data, name, _, _ in shown:
        dice = random.Random(f"3 {name}")
        for _ in range(int(number) % 12 + 1):
            image = pixels(dice, NAMES.index(name), 8, 3)
        assert unpack_png(base64.b64decode(data)) == [bytes(v for pixel in row for v in pixel) for row in image]
    assert "<h2>Classes</h2>" in page and "http" not in page.replace("http://www.w3.org/2000/svg", "")
    held = ebb("eval", "cnn", "run", "run/valid.images", "--json").json()
    ebb("report", "run", "page.html")
    assert len(re.findall("<img ", open("page.html").read())) == len(held["worst_images"])
    refused(7, "eval", "cnn", "run", "held", "--html", "nowhere/page.html", says="nowhere")


# ---- eval ----

def test_eval_says_what_validation_said():
    net()
    idx("data", "train", 90, 1)
    idx("data", "t10k", 43, 2, pack=True)  # the last batch is not full
    ebb("train", "cnn", "--train", "data", "--valid", "data", *RUN, "--epochs", "4", "--out", "run", "--quiet")
    best = max((line for line in metrics("run") if "valid_top1" in line), key=lambda line: line["valid_top1"])
    found = ebb("eval", "cnn", "run", "data", "--json").json()
    assert (found["top1"], found["top5"]) == (best["valid_top1"], best["valid_top5"])
    assert found["images"] == 43 and found["planned_peak_bytes"] == found["measured_peak_bytes"]
    assert ebb("eval", "cnn", "run", "run/valid.images", "--json").json() == found
    assert ebb("eval", "cnn", "run", "data/t10k-images-idx3-ubyte.gz", "--threads", "2", "--json").json()["loss"] == found["loss"]
    few = ebb("eval", "cnn", "run", "data", "--batch", "3", "--json").json()
    assert few["confusion"] == found["confusion"] and abs(few["loss"] - found["loss"]) < 1e-6
    for name in ["train.images", "valid.images"]:  # a run can be used without its images
        os.remove("run/" + name)
    assert ebb("eval", "cnn", "run", "data", "--json").json() == found


def test_eval_counts_by_class():
    trained()
    photos("held", 7, 3)
    found = ebb("eval", "cnn", "run", "held", "--json", "--csv", "table.csv").json()
    matrix, classes = found["confusion"], found["classes"]
    assert [c["name"] for c in classes] == NAMES and [c["images"] for c in classes] == [7, 7, 7] == [sum(row) for row in matrix]
    right = [matrix[k][k] for k in range(3)]
    assert found["top1"] == sum(right) / 21 > 0.5 and found["top5"] == 1
    for k, one in enumerate(classes):
        said = sum(row[k] for row in matrix)
        assert one["recall"] == right[k] / 7 and one["precision"] == (right[k] / said if said else None)
    rows = list(csv.reader(open("table.csv")))
    assert rows[0] == ["class", *NAMES] and [[int(n) for n in row[1:]] for row in rows[1:]] == matrix
    wrong = {(w["class"], w["said"]): w["images"] for w in found["worst_confusions"]}
    assert wrong == {(i, k): matrix[i][k] for i in range(3) for k in range(3) if i != k and matrix[i][k]}
    said = ebb("eval", "cnn", "run", "held").out
    assert "top-1 accuracy" in said and re.search(r"both +7 ", said) and re.search(r"both +" + " +".join(map(str, matrix[1])), said), said
    # Each answer of `predict` is the one that was counted.
    answers = ebb("predict", "run", *[f"held/{name}/{i:03}.png" for name in NAMES for i in range(7)], "--json").json()["images"]
    counted = [[0] * 3 for _ in range(3)]
    for at, answer in enumerate(answers):
        counted[at // 7][answer["best"][0]["class"]] += 1
    assert counted == matrix


def test_eval_refuses_other_images():
    trained()
    idx("grey", "t10k", 10, 1)
    refused(2, "eval", "cnn", "run", "grey", says=["grey: images are 8 x 8 with 1 channel", "the net takes 8 x 8 with 3"])
    refused(3, "eval", "cnn", "run", "nowhere", says="nowhere")
    refused(5, "eval", "cnn", "photos", "photos", says="is not the folder of a run")
    refused(5, "eval", "lm", "run", "net.txt", says=["a convolutional net, not a language model", "ebb predict or ebb eval cnn"])
    refused(4, "eval", "cnn", "run", "photos", "--memory", "20K")
    refused(2, "eval", "cnn", "run", says="an argument is missing")
    shutil.copy("run/images.json", "card")
    card = json.load(open("card"))
    for change, says in [({"mean": [1, 2, 3]}, "images.json is not the one of these weights"), ({"channels": 4}, "does not describe images"),
                         ({"names": [1]}, "does not describe images"), ({"classes": 4}, "other images than")]:
        write("run/images.json", json.dumps({**card, **change}))
        refused(5, "eval", "cnn", "run", "photos", says=says)
    os.remove("run/images.json")
    refused(5, "eval", "cnn", "run", "photos", says="images.json: is not there")
    # The same command makes it again, if only that was lost.
    ebb("train", "cnn", "--train", "photos", *RUN, "--epochs", "7", "--out", "run", "--quiet")
    assert open("run/images.json").read() == open("card").read()


# ---- predict ----

def test_predict_names_what_it_sees():
    assert trained()["best_top1"] > 0.8
    photos("held", 5, 3)
    paths = [f"held/{name}/00{i}.png" for name in NAMES for i in range(5)]
    lines = ebb("predict", "run", *paths).out.splitlines()
    assert [line.split("\t")[0] for line in lines] == paths
    found = ebb("predict", "run", *paths, "--json", "--threads", "2").json()
    assert found["left_out"] == 0 and found["planned_peak_bytes"] == found["measured_peak_bytes"]
    for line, answer in zip(lines, found["images"]):
        shown = [f'{guess["name"]} {guess["probability"]:.4f}' for guess in answer["best"]]
        assert line.split("\t")[1:] == shown and len(shown) == 3
        assert abs(sum(guess["probability"] for guess in answer["best"]) - 1) < 1e-9
        assert sorted((g["probability"] for g in answer["best"]), reverse=True) == [g["probability"] for g in answer["best"]]
    # One at a time, or in less memory, they are the same to the last bit.
    for at in (0, 7):
        assert ebb("predict", "run", paths[at], "--json").json()["images"] == [found["images"][at]]
    one = ebb("predict", "run", paths[0], "--json").json()["planned_peak_bytes"]
    assert ebb("predict", "run", *paths, "--memory", one, "--json").json()["images"] == found["images"]
    ebb("predict", "run", *paths, "--memory", one // 2, expect=4)
    assert len(ebb("predict", "run", paths[0], "--top", "1").out.split("\t")) == 2


def test_predict_names_what_it_cannot_read():
    trained()
    good = "photos/down/000.png"
    write("bad.png", open(good, "rb").read()[:60])
    write("text.png", "no image")
    result = ebb("predict", "run", good, "bad.png", good, expect=3)
    assert result.out.startswith(good + "\t") and len(result.out.splitlines()) == 1
    assert len(result.err.splitlines()) == 1 and "bad.png" in result.err
    result = ebb("predict", "run", "bad.png", good, "text.png", "nowhere.png", "photos", good, "--bad", "skip")
    assert len(result.out.splitlines()) == 2
    for name in ["bad.png", "text.png", "nowhere.png", "photos"]:
        assert re.search(f"warning: .*{name}.*left out", result.err), result.err
    refused(3, "predict", "run", "bad.png", "--json")
    assert "no image could be decoded" in ebb("predict", "run", "bad.png", "--bad", "skip", expect=3).err
    refused(2, "predict", "run", says="an argument is missing")
    refused(5, "predict", "photos", good, says="is not the folder of a run")


main(globals())
