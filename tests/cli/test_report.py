"""ebb report: a page that needs nothing else, of any run, also of one whose texts are gone."""
import html.parser
import os
import re
import resource
import xml.etree.ElementTree as tree

from ebbtest import SANITIZED, TINY, ebb, main, refused, text, write

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(html.parser.HTMLParser):
    """Checks that tags are closed in order; gathers text by tag."""

    def __init__(self, data):
        super().__init__()
        self.open, self.words, self.attributes = [], {}, []
        self.feed(data)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.words.setdefault(self.open[-1], []).append(data)


def page(name):
    with open(name, encoding="utf8") as file:
        data = file.read()
    assert "<script" not in data and "@import" not in data and "url(" not in data
    assert set(re.findall(r"https?://[^\"' <]*", data)) <= {"http://www.w3.org/2000/svg"}, "something from elsewhere"
    found = Page(data)
    assert not [value for key, value in found.attributes if key in ("src", "href")]
    pictures = re.findall(r"<svg.*?</svg>", data, re.S)
    for picture in pictures:
        tree.fromstring(picture)
    return found, pictures, data


def translation_run(*more):
    ebb("data", "dates", "t.src", "t.tgt", "--lines", "300")
    ebb("data", "dates", "v.src", "v.tgt", "--lines", "30", "--seed", "2")
    ebb("train", "nmt", "--train", "t.src", "t.tgt", "--valid", "v.src", "v.tgt", "--hidden", "16", "--batch", "16", "--vocab", "all", "--lr", "0.02",
        "--epochs", "2", "--threads", "1", "--log-every", "5", "--out", "run", "--memory", "4M", "--quiet", *more)


def test_of_a_translation_model():
    translation_run("--valid-metric", "bleu")
    result = ebb("report", "run", "report.html")
    assert result.out == "" and result.err == ""
    found, pictures, data = page("report.html")
    assert len(pictures) == 5  # before, after, curve, learning, attention
    plan = ebb("plan", "nmt", "--train", "t.src", "t.tgt", "--valid", "v.src", "v.tgt", "--hidden", "16", "--batch", "16", "--vocab", "all",
               "--threads", "1", "--memory", "4M", "--valid-metric", "bleu", "--json").json()
    for picture, key in [(pictures[0], "keep_all_bytes"), (pictures[1], "peak_bytes")]:
        assert f"{plan[key]:,} bytes planned" in picture, key
    scales = [[node.text for node in tree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text") if re.fullmatch(r"[\d.]+ [KMG]?i?B", node.text or "")
               and node.get("text-anchor") == "end" and node.get("x") == "76.0"] for picture in pictures[:2]]
    assert scales[0] == scales[1] and len(scales[0]) >= 3, scales
    assert "BLEU of validation text" in pictures[3] and "attended" in pictures[4]
    cells = found.words["td"]
    sources = open("v.src", encoding="utf8").read().splitlines()[:8]
    assert all(source in cells for source in sources) and "run" in found.words["code"]
    for key, value in [("hidden", "16"), ("valid-metric", "bleu"), ("memory", str(4 << 20))]:
        assert cells[cells.index(key) + 1] == value, key
    assert data.count("prefers-color-scheme") >= 6
    again = data
    ebb("report", "run", "report.html")
    assert page("report.html")[2] == again


def test_of_a_language_model():
    text("t.txt")
    ebb("train", "lm", "--train", "t.txt", "--valid", "t.txt", *TINY, "--epochs", "2", "--out", "run", "--quiet")
    ebb("report", "run", "report.html")
    found, pictures, _ = page("report.html")
    assert len(pictures) == 4 and "Language model " in found.words["h1"] and "Translations" not in found.words["h2"]


def test_of_what_is_left_of_a_run():
    translation_run()
    for name in ["t.src", "v.tgt", "run/metrics.jsonl", "run/best.safetensors"]:
        os.remove(name)
    ebb("report", "run", "report.html")
    found, pictures, _ = page("report.html")
    said = " ".join(found.words["p"])
    assert pictures == [] and "t.src" in said and "v.tgt" in said and "Nothing was noted" in said and "Settings" in found.words["h2"], said
    os.rename("run", "a & <b>")
    ebb("report", "a & <b>", "report.html")
    assert "a & <b>" in page("report.html")[0].words["code"]


def test_odd_metrics():
    translation_run()
    with open("run/metrics.jsonl", encoding="utf8") as file:
        lines = file.read()
    write("run/metrics.jsonl", "rubbish\n[]\n{\"step\":\"x\"}\n" + lines + "{\"step\":99,\"loss\":null,\"nonfinite\":\"nan\"}\n{\"step\":100,\"lo")
    ebb("report", "run", "report.html")
    _, pictures, data = page("report.html")
    assert "nan" not in pictures[3] and "inf" not in pictures[3] and ">99<" in data


def test_refusals():
    refused(5, "report", "nowhere", "report.html", says="nowhere")
    assert not os.path.exists("report.html")
    translation_run()
    refused(7, "report", "run", "no/report.html", says="no/report.html")
    refused(2, "report", "run", says="ebb report DIR FILE")


def small_run():
    text("t", 40)
    ebb("train", "lm", *TINY, "--train", "t", "--steps", "2", "--out", "run", "--quiet")


def labels(picture):
    """Heights of the labels at the ends of the lines."""
    texts = list(tree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"))
    return [next(float(node.get("y")) for node in texts if (node.text or "").startswith(name + " ")) for name in ["training", "validation"]]


def test_labels_do_not_touch():
    small_run()
    for train, valid in [(3.0, 20.0), (3.0, 20.1), (3.0, 20.5), (3.0, 22.0), (3.0, 19.0), (3.0, 15.0), (3.0, 14.0), (3.0, 13.0), (3.0, 40.0), (2.0, 3.0)]:
        write("run/metrics.jsonl", '{"step": 1, "epoch": 1, "loss": 4.6, "words_per_second": 1}\n'
              '{"step": 2, "epoch": 1, "loss": %r, "words_per_second": 1, "valid_perplexity": %r}\n' % (train, valid))
        ebb("report", "run", "page.html")
        at = labels(page("page.html")[1][-1])
        assert abs(at[0] - at[1]) >= 15, (train, valid, at)
        assert (at[0] < at[1]) == (2.718281828 ** train > valid), (train, valid, at)


def test_metrics_of_any_sort():
    """Numbers that are none, and a file of nothing but line ends, which takes no memory."""
    small_run()
    write("run/metrics.jsonl", '{"step": 1, "epoch": 1e300, "loss": 4}\n{"step": 9223372036854775807, "loss": 4}\n{"step": -1}\n{"step": 2.5}\n[]\n'
          '{"step": 2, "epoch": "x", "loss": 1e308, "valid_perplexity": -4}\n{"step": 3, "epoch": 2, "loss": null}\nnot json\n')
    ebb("report", "run", "page.html")
    found, pictures, data = page("page.html")
    assert "steps, 2 epochs" in data and "9223372036854775" not in data and len(pictures) == 4
    if not SANITIZED:
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        write("run/metrics.jsonl", b"\n" * (32 << 20))
        ebb("report", "run", "page.html", preexec_fn=limit)
        assert "Nothing was noted yet" in page("page.html")[2]


def test_captions_say_what_is_so():
    translation_run("--smoothing", "0.1")
    ebb("report", "run", "page.html")
    data = page("page.html")[2]
    assert data.count("smoothed labels (smoothing 0.1)") == 1 and "at most 2% slower than the fastest that fits" in data
    translation_run("--fresh")
    ebb("report", "run", "page.html")
    assert "smoothed labels" not in page("page.html")[2]


def test_from_another_folder():
    """The texts of a run lie where the run was started, and so the page has all its pictures anywhere."""
    translation_run()
    ebb("report", "run", "here.html")
    os.mkdir("elsewhere")
    ebb("report", "../run", "page.html", cwd="elsewhere")
    ebb("report", ".", "inside.html", cwd="run")
    ebb("report", os.path.abspath("run"), os.path.abspath("root.html"), cwd="/")
    for name in ["elsewhere/page.html", "run/inside.html", "root.html"]:
        assert len(page(name)[1]) == len(page("here.html")[1]) == 5, name
    os.rename("v.src", "gone")
    ebb("report", "../run", "page.html", cwd="elsewhere")
    assert os.path.abspath("v.src") in page("elsewhere/page.html")[2]


main(globals())
