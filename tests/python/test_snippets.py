"""The Python of README and docs/python.md runs as it stands there: with batches, and with texts under the names that it uses."""
import array
import math
import os
import re

from pytest_ebb import ROOT, need_library

need_library()
import ebb  # noqa: E402
from ebb import command  # noqa: E402
from ebbtest import main  # noqa: E402


def snippets(document):
    with open(os.path.join(ROOT, document), encoding="utf8") as file:
        return re.findall(r"^```python\n(.*?)^```", file.read(), re.S | re.M)


def given():
    """What a reader would have: arrays of one batch, batches, two texts with their translations."""
    floats = array.array("f", (math.sin(7.3 * i) for i in range(128)))
    xs = memoryview(floats).cast("B").cast("f", (64, 2))
    products = array.array("f", (floats[2 * i] * floats[2 * i + 1] for i in range(64)))
    ys = memoryview(products).cast("B").cast("f", (64, 1))
    command.call("data", "dates", "train.en", "train.de", lines=40)
    command.call("data", "dates", "valid.en", "valid.de", lines=5, seed=2)
    return {"xs": xs, "ys": ys, "batches": [(xs, ys)] * 100, "train": lambda program: program.step(lr=0.01, x=xs, y=ys)}


def test_python_md():
    found, names = snippets("docs/python.md"), given()
    assert len(found) >= 2 and "ebb.Run(" in "".join(found)
    for code in found:
        exec(compile(code, "docs/python.md", "exec"), names)
    assert names["loss"] < 0.02 and names["run"].metrics[-1]["epoch"] == 20
    assert names["program"].plan.peak_bytes <= 1 << 20


def test_readme():
    names = given()
    [code] = snippets("README.md")
    ebb.train("nmt", "en-de", train=["train.en", "train.de"], hidden=8, steps=3, memory="64M", quiet=True)
    exec(compile(code, "README.md", "exec"), names)
    assert names["loss"] < 0.1


def test_names_exist():
    for document in "README.md", "docs/python.md", "docs/api.md":
        with open(os.path.join(ROOT, document), encoding="utf8") as file:
            used = set(re.findall(r"\bebb\.([A-Za-z]\w*)(?!\.)\b", file.read())) - {"h"}
        assert used <= set(ebb.__all__) | {"command"}, (document, used - set(ebb.__all__))


main(globals())
