"""Time and memory shown: the curve as table and JSON, both pictures, and what they must agree with."""
import os
import re
import xml.etree.ElementTree as ET

from ebbtest import ebb, main, refused, write

SMALL = ["--layers", "2", "--hidden", "24", "--vocab", "300", "--batch", "6", "--bptt", "8", "--dropout", "0.2", "--threads", "1"]
SVG = "{http://www.w3.org/2000/svg}"


def plan(*args):
    return ebb("plan", "lm", *SMALL, *args, "--json").json()


def picture(*args, expect=0):
    """Draws, and gives the root of what was drawn with all its words."""
    ebb("plan", "lm", *SMALL, *args, "--svg", "p.svg", expect=expect)
    root = ET.parse("p.svg").getroot()
    assert root.tag == SVG + "svg" and root.get("width") == "900"
    return root, ["".join(part.itertext()) for part in root.iter(SVG + "text")]


def numbers(root):
    for part in root.iter():
        for key in ["x", "y", "width", "height", "cx", "cy", "d"]:
            for number in re.findall(r"[-+.0-9a-z]+", re.sub("[MLHVZ]", " ", part.get(key, ""))):
                yield key, float(number)  # fails at nan and inf


def test_report_fields():
    shown = plan()
    assert "curve" not in shown and isinstance(shown["decisions"], list)
    assert shown["seconds_per_step_keep_all"] > 0 and shown["recomputed_nodes"] >= 0
    for decision in shown["decisions"]:
        assert sorted(decision) == ["bytes", "form", "layer", "nodes", "seconds"] and decision["form"] == "recomputed"
    kept = plan("--disable", "recompute")
    assert kept["recomputed_nodes"] == 0 and kept["decisions"] == []


def test_curve():
    shown = plan("--curve")
    curve = shown["curve"]
    assert len(curve) > 2 and all(sorted(point) == ["activation_bytes", "budget_bytes", "decided", "peak_bytes", "seconds_per_step"] for point in curve)
    for faster, smaller in zip(curve, curve[1:]):
        assert faster["peak_bytes"] > smaller["peak_bytes"] and faster["budget_bytes"] > smaller["budget_bytes"]
        assert faster["seconds_per_step"] <= smaller["seconds_per_step"]
    assert curve[-1]["peak_bytes"] == shown["least_bytes"]
    assert curve[0]["peak_bytes"] <= shown["keep_all_bytes"]
    assert any(point["peak_bytes"] == shown["peak_bytes"] for point in curve)
    for point in curve[:: max(1, len(curve) // 4)]:
        taken = plan("--memory", point["budget_bytes"])
        assert taken["peak_bytes"] <= point["peak_bytes"]
        assert taken["seconds_per_step"] <= 1.021 * point["seconds_per_step"]


def test_curve_as_a_table():
    shown = plan("--curve")
    lines = ebb("plan", "lm", *SMALL, "--curve").out.splitlines()
    rows = [line for line in lines if re.match(r"  [ *] *\d+ ", line)]
    assert [int(row[3:].split()[0]) for row in rows] == [point["peak_bytes"] for point in shown["curve"]]
    taken = [row for row in rows if row.startswith("  *")]
    assert len(taken) == 1 and int(taken[0][3:].split()[0]) == shown["peak_bytes"]
    assert max(map(len, lines)) <= 110


def test_step_picture():
    shown = plan()
    root, words = picture()
    assert any(f"{shown['peak_bytes']:,} bytes planned" in text for text in words)
    assert any("instructions of one training step" in text for text in words)
    assert not any(text.startswith("budget") for text in words)
    for text in ["weights", "optimizer", "data", "program", "stash", "gradients", "workspace", "unused"]:
        assert text in words, text
    for phase in ["forward", "backward", "update"]:
        assert any(re.match(phase + r" [0-9,]+$", text) for text in words), phase
    assert sum(text.startswith(("peak ", "keeping all ")) for text in words) == 2
    for key, number in numbers(root):
        assert -1 <= number <= 900, (key, number)
    bands = [part for part in root.iter(SVG + "path") if part.find(SVG + "title") is not None]
    assert len(bands) >= 4
    # Nothing is drawn above the peak's line.
    top = min(float(y) for part in bands for y in re.findall(r"V([0-9.]+)", part.get("d")))
    peak = min(float(part.get("d").split()[1].split("L")[0]) for part in root.iter(SVG + "path") if part.get("class") == "ink-line")
    assert top >= peak - 0.1, (top, peak)


def test_many_instructions_are_few_columns():
    ebb("plan", "lm", "--layers", "1", "--hidden", "4", "--vocab", "20", "--batch", "1", "--bptt", "600", "--threads", "1", "--svg", "p.svg")
    assert os.path.getsize("p.svg") < 400_000
    edges = {x for part in ET.parse("p.svg").getroot().iter(SVG + "path") for x in re.findall(r"[HM]([0-9.]+)", part.get("d"))}
    assert 20 < len(edges) <= 610


def test_budget_in_pictures():
    shown = plan()
    for size in [shown["peak_bytes"], shown["keep_all_bytes"], 1 << 40]:
        for curve in [[], ["--curve"]]:
            root, words = picture(*curve, "--memory", size)
            assert any("budget" in text for text in words), (size, curve, words)
            assert all(-1 <= number <= 900 for _, number in numbers(root))
    for curve in [[], ["--curve"]]:
        root, words = picture(*curve, "--memory", shown["least_bytes"] - 1, expect=4)
        assert any("budget" in text for text in words)
        assert all(-1 <= number <= 900 for _, number in numbers(root))


def test_curve_picture():
    shown = plan("--curve")
    root, words = picture("--curve")
    points = [part for part in root.iter(SVG + "g")]
    assert len(points) == len(shown["curve"])
    assert sum(text.startswith("taken: ") for text in words) == 1
    assert any("least" in text for text in words) and any(text.startswith("keeping all") for text in words)
    assert all(-1 <= number <= 900 for _, number in numbers(root))
    # One plan only is a picture too.
    root, words = picture("--curve", "--disable", "chunk,layout,recompute")
    assert len(list(root.iter(SVG + "g"))) == 1 and all(-1 <= number <= 900 for _, number in numbers(root))


def test_both_schemes_in_one_file():
    picture()
    text = open("p.svg", encoding="utf8").read()
    assert "prefers-color-scheme:dark" in text and "http" not in text.replace("http://www.w3.org/2000/svg", "")


def test_a_file_that_cannot_be_written():
    refused(7, "plan", "lm", *SMALL, "--svg", "missing/p.svg", says="missing/p.svg")
    write("p.svg", "old")
    picture()
    assert sorted(os.listdir()) == ["p.svg"] and b"old" != open("p.svg", "rb").read()
    refused(2, "bench", "lm", "--svg", "p.svg", says="takes no --svg")
    refused(2, "train", "lm", "--curve", says="takes no --curve")


main(globals())
