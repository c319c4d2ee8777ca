"""Which weights of a run are used: --weights best, last, or a file."""
import os
import shutil

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


if __name__ == "__main__":
    main(globals())
