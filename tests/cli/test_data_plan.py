"""ebb data plan: its numbers against counting here, what is left out, wrong use, the picture."""
import collections
import random
import re
import xml.etree.ElementTree as ET

from ebbtest import ebb, main, refused, write

LM = ["--layers", "1", "--hidden", "8", "--threads", "1"]
NMT = ["--hidden", "8", "--threads", "1"]
NAMES = ["none", "static", "greedy", "percentile", "width", "optimal", "pool"]
SVG = "{http://www.w3.org/2000/svg}"


def sentences(path, lengths):
    """A text whose lines have these lengths, end mark counted."""
    return write(path, "".join(" ".join(["w%d" % (i % 7) for i in range(n - 1)]) + "\n" for n in lengths))


def lengths(n, most, seed=1):
    dice = random.Random(seed)
    return [min(most, 2 + int(dice.expovariate(0.15))) for _ in range(n)]


def plan(*args):
    found = ebb("data", "plan", *args, "--json").json()
    assert [s["name"] for s in found["strategies"]] == NAMES
    for s in found["strategies"]:
        assert s["shape_count"] == len(s["shapes"]) == len(s["batch"]) == len(s["bytes"]) == len(s["sentences"])
        assert s["sentences_used"] == found["sentences_used"] == sum(s["sentences"])
        assert s["sentences_over"] == found["sentences_over"]
        assert 0 <= s["padded_share"] < 1 and s["predicted_epoch_seconds"] > 0 and s["empty_rows"] >= 0
        assert all(b >= 1 for b in s["batch"]) and all(b > 1000 for b in s["bytes"])
        assert s["programs"] == len(s["compiled"]) and 0 <= s["computed_share"] < 1 and s["steps"] >= 1
        if s["programs"] == s["shape_count"] and s["name"] != "pool":  # what is run are the shapes
            assert sorted(s["compiled"]) == sorted(s["shapes"]) and s["computed_share"] <= s["padded_share"] + 1e-12
        else:
            assert s["name"] in ["greedy", "pool"] and s["computed_share"] >= s["padded_share"]
    return found, {s["name"]: s for s in found["strategies"]}


def fewest_tokens(all_lengths, k):
    counts = sorted(collections.Counter(all_lengths).items())
    before = [0]
    for _, n in counts:
        before.append(before[-1] + n)
    best = [0] + [float("inf")] * len(counts)
    for _ in range(k):
        best = [0] + [min(best[a] + counts[b - 1][0] * (before[b] - before[a]) for a in range(b)) for b in range(1, len(counts) + 1)]
    return best[-1]


def test_one_text():
    all_lengths = lengths(1500, 60)
    sentences("a", all_lengths)
    for k in [1, 3, 8]:
        found, by = plan("--lm", "a", "--shapes", k, "--batch", "10", *LM)
        assert found["sentences_used"] == 1500 and found["longest"] == [max(all_lengths)]
        assert abs(found["mean_length"][0] - sum(all_lengths) / 1500) < 1e-9
        want = 1 - sum(all_lengths) / fewest_tokens(all_lengths, k)
        assert abs(by["optimal"]["padded_share"] - want) < 1e-9
        assert by["optimal"]["shape_count"] == k and by["optimal"]["batch"] == [10] * k
        for name in ["none", "percentile", "width"]:
            assert by[name]["padded_share"] >= by["optimal"]["padded_share"] - 1e-9
            assert by[name]["shape_count"] <= k
        assert by["none"]["shapes"] == [[max(all_lengths)]]
        assert by["greedy"]["padded_share"] < 0.05 and by["pool"]["padded_share"] < 0.1
        best = min(found["strategies"], key=lambda s: s["predicted_epoch_seconds"])
        assert by[found["chosen"]]["predicted_epoch_seconds"] == best["predicted_epoch_seconds"]
        assert found["chosen"] != "none" or k == 1
        # Of greedy, which makes more shapes, sentences run on the programs of optimal.
        same = ["compiled", "computed_share", "steps", "predicted_epoch_seconds"]
        assert by["greedy"]["shape_count"] > k and [by["greedy"][key] for key in same] == [by["optimal"][key] for key in same]


def test_the_example_of_the_report():
    sentences("a", [4, 8, 3, 7])
    _, by = plan("--lm", "a", "--batch", "2", *LM)
    assert by["greedy"]["shapes"] == [[4], [8]]
    assert abs(by["greedy"]["padded_share"] - 2 / 24) < 1e-12


def test_pairs():
    source = lengths(2000, 50)
    dice = random.Random(2)
    target = [max(2, n + dice.randrange(-3, 4)) for n in source]
    sentences("s", source)
    sentences("t", target)
    found, by = plan("--nmt", "s", "t", "--shapes", "6", "--batch", "16", *NMT)
    assert found["longest"] == [max(source), max(target)] and found["sentences_used"] == 2000
    none = 1 - (sum(source) + sum(target)) / (2000 * (max(source) + max(target)))
    assert abs(by["none"]["padded_share"] - none) < 1e-9
    assert by["none"]["empty_rows"] == (-2000) % 16
    for s in by.values():
        assert s["shape_count"] <= 6 or s["name"] == "greedy"
        assert all(len(shape) == 2 for shape in s["shapes"])
    order = ["pool", "optimal", "width", "none"]
    shares = [by[name]["padded_share"] for name in order]
    assert shares == sorted(shares), shares
    # The same numbers again, and pools of another seed.
    assert plan("--nmt", "s", "t", "--shapes", "6", "--batch", "16", *NMT)[0] == found
    other = plan("--nmt", "s", "t", "--shapes", "6", "--batch", "16", "--seed", "2", *NMT)[1]
    assert other["pool"]["padded_share"] != by["pool"]["padded_share"]
    assert other["optimal"] == by["optimal"]


def test_batches_by_tokens():
    sentences("a", lengths(800, 40))
    found, by = plan("--lm", "a", "--batch-tokens", "200", *LM)
    assert found["batch_tokens"] == 200 and found["batch"] == 0
    for s in by.values():
        for shape, batch in zip(s["shapes"], s["batch"]):
            # Batches of a pool are as long as their own longest, and on a longer shape as large.
            assert batch <= 200 // shape[0] or s["name"] == "pool"
        # No row that no sentence would fill: a shape has as many as it has sentences, or as tokens allow.
        assert s["name"] == "pool" or s["empty_rows"] == 0 or any(batch == 200 // shape[0] for shape, batch in zip(s["shapes"], s["batch"]))
    assert found["chosen"] != "pool"
    assert plan("--lm", "a", "--batch-tokens", "200", "--bucket", "pool", *LM)[1] == by
    assert plan("--lm", "a", "--batch-tokens", "200", *LM)[0] == found
    write("c", "tokens = char\nbatch-tokens = 200\n")
    chars, _ = plan("--lm", "a", "--config", "c", *LM)
    assert chars["batch_tokens"] == 200 and chars["mean_length"][0] > found["mean_length"][0]
    write("c", "tokens = 200\n")
    refused(2, "data", "plan", "--lm", "a", "--config", "c", *LM, says="--batch-tokens 200")
    refused(2, "data", "plan", "--lm", "a", "--tokens", "200", says="a number is said with --batch-tokens 200")
    refused(2, "data", "plan", "--lm", "a", "--batch-tokens", "0", says="out of range")
    refused(2, "data", "plan", "--lm", "a", "--tokens", "wrod", says="did you mean word?")
    refused(2, "data", "plan", "--lm", "a", "--batch-tokens", "9", "--batch", "3", says="only one")


def test_left_out_is_counted():
    write("s", "a b c\n\na b c d e f\na\n" + "a b\n" * 20)
    write("t", "a b c\nx\na\na b c d e f\n" + "a b\n" * 20)
    found, by = plan("--nmt", "s", "t", "--max-len", "5", *NMT)
    assert found["lines"] == 24 and found["sentences_used"] == 21
    assert found["sentences_over"] == 2 and found["first_over"] == 3
    assert found["sentences_empty"] == 1 and found["first_empty"] == 2
    shown = ebb("data", "plan", "--nmt", "s", "t", "--max-len", "5", *NMT).out
    assert "2 of more than 5 tokens (--max-len), the first in line 3" in shown
    assert "1 without a token on a side, the first in line 2" in shown
    found, _ = plan("--lm", "t", "--max-len", "5", *LM)
    assert found["sentences_used"] == 23 and found["sentences_over"] == 1 and found["first_over"] == 4


def test_static_list():
    sentences("a", [3, 5, 5, 9, 9, 20])
    _, by = plan("--lm", "a", "--static", "9,5", "--batch", "2", *LM)
    assert by["static"]["shapes"] == [[5], [9], [20]] and by["static"]["sentences"] == [3, 2, 1]
    sentences("b", [4, 6, 9, 2, 9, 9])
    _, by = plan("--nmt", "a", "b", "--static", "5x9,10", "--batch", "2", *NMT)
    assert by["static"]["shapes"] == [[5, 9], [9, 9], [20, 9]]
    refused(2, "data", "plan", "--lm", "a", "--static", "5x9", says="'5x9' is no list")
    refused(2, "data", "plan", "--lm", "a", "--static", "", says="empty")


def test_table():
    sentences("a", lengths(300, 30))
    shown = ebb("data", "plan", "--lm", "a", *LM).out
    rows = re.findall(r"^([ *]) (\w+) +(\d+) +([\d.]+)% +(\d+) +(\d+) +\d+ +[\d.]+% +\S+$", shown, re.M)
    assert [row[1] for row in rows] == NAMES
    assert [row[0] for row in rows].count("*") == 1 and max(map(len, shown.splitlines())) <= 80
    marked = ebb("data", "plan", "--lm", "a", "--bucket", "width", *LM).out
    assert re.search(r"^\* width ", marked, re.M) and "\n* width: " in marked and "  at most: memory" in marked
    assert "more than --shapes" not in marked
    marked = ebb("data", "plan", "--lm", "a", "--bucket", "greedy", "--shapes", "2", "--batch", "8", *LM).out
    assert "more than --shapes: a sentence runs on the smallest of these that holds it\n" in marked


def test_small_and_bad_input():
    write("one", "a b c\n")
    found, by = plan("--lm", "one", "--shapes", "32", *LM)
    assert all(s["shapes"] == [[4]] and s["padded_share"] == 0 for s in by.values())
    sentences("few", [4, 4, 9])
    _, by = plan("--lm", "few", "--shapes", "32", *LM)
    assert by["optimal"]["shape_count"] == 2
    write("empty", "")
    write("blank", "\n \n")
    refused(3, "data", "plan", "--lm", "empty", says="empty")
    refused(3, "data", "plan", "--lm", "blank", says="none of the 2 lines can be used")
    refused(3, "data", "plan", "--lm", "one", "--max-len", "2", says="1 more than 2 tokens")
    refused(3, "data", "plan", "--nmt", "one", "few", says="has 1 lines")
    refused(3, "data", "plan", "--lm", "nowhere", says="nowhere")
    refused(2, "data", "plan", says="--lm FILE")
    refused(2, "data", "plan", "--nmt", "one", says="--nmt SRC TGT")
    refused(2, "data", "plan", "--lm", "one", "--batch", "0", says="out of range")
    assert ebb("data", "plan", "--lm", "one", "--batch", "auto", "--json").json()["batch_tokens"] == 4
    refused(2, "data", "plan", "--lm", "one", "--shapes", "33", says="at most 32")
    refused(2, "data", "plan", "--lm", "one", "--bucket", "optima", says="optimal")
    refused(2, "data", "plan", "--lm", "one", "--src-len", "3", says="takes no --src-len")
    refused(2, "train", "lm", "--batch-tokens", "77", says="by-sentence")


def test_pictures():
    sentences("a", lengths(700, 40))
    sentences("b", lengths(700, 40, seed=2))
    for bucket in ["auto", "greedy", "optimal"]:
        for args in [["--lm", "a", *LM], ["--nmt", "a", "b", *NMT]]:
            ebb("data", "plan", *args, "--bucket", bucket, "--svg", "p.svg", "--quiet")
            root = ET.parse("p.svg").getroot()
            words = ["".join(part.itertext()) for part in root.iter(SVG + "text")]
            assert root.tag == SVG + "svg" and words[0].startswith("700 ")
            _, by = plan(*args)
            if bucket != "auto":
                assert words[1].startswith(f"{bucket}, {by[bucket]['shape_count']} shapes: {100 * by[bucket]['padded_share']:.1f}%")
                assert "nan" not in open("p.svg", encoding="utf8").read()
    refused(7, "data", "plan", "--lm", "a", "--svg", "nowhere/p.svg", *LM)


def test_help():
    lm, nmt = ebb("data", "plan", "--help").out, ebb("data", "plan", "--nmt", "--help").out
    for shown, has, lacks in [(lm, ["lm", "bptt", "layers"], ["nmt", "enc-layers"]), (nmt, ["nmt", "enc-layers"], ["lm", "layers"])]:
        listed = re.findall(r"^  --([a-z0-9-]+)", shown, re.M)
        assert set(has + ["bucket", "shapes", "static", "batch-tokens", "max-len", "svg", "json"]) <= set(listed)
        assert not set(lacks) & set(listed) and len(listed) == len(set(listed))
        assert max(map(len, shown.splitlines())) <= 80
    assert ebb("help", "data", "plan").out == lm


if __name__ == "__main__":
    main(globals())
