"""A language model trained on one text goes on with another: the second run starts from the weights of the first, whose vocabulary both
texts have. Shows what each run thinks of lines of either text."""
import math
import os
import tempfile
from typing import Any, Dict

import ebb
from ebb import command


def perplexity(run, lines):
    found = run.score(lines)
    return math.exp(-sum(one.log_prob for one in found) / sum(one.tokens for one in found))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    command.call("data", "grammar", "all.txt", lines=4000)
    with open("all.txt", encoding="utf8") as file:
        lines = file.read().splitlines()
    # The same words in both texts, the second one backwards.
    first, second = lines[:3000], [" ".join(reversed(line.split())) for line in lines[:3000]]
    for name, text in ("first.txt", first), ("second.txt", second):
        with open(name, "w", encoding="utf8") as file:
            file.write("\n".join(text) + "\n")
    options: Dict[str, Any] = dict(by_sentence=True, hidden=32, layers=1, lr=2, epochs=3, memory="64M", quiet=True)
    base = ebb.train("lm", "base", train="first.txt", **options)
    tuned = ebb.train("lm", "tuned", train="second.txt", init="base", **options)
    held, turned = lines[3000:3200], [" ".join(reversed(line.split())) for line in lines[3000:3200]]
    for name, run in ("base", base), ("tuned", tuned):
        print(f"{name:5}: {perplexity(run, held):8.2f} on the first text, {perplexity(run, turned):8.2f} on the second")
    print(tuned.generate(tokens=20, temperature=0.5).splitlines()[0])
    os.chdir("/")
