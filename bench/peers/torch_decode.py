#!/usr/bin/env python3
"""Peer of `ebb decode`: batched beam search in PyTorch with the weights of an ebb run.

Sentences sorted by length go in batches; each batch is encoded once; keys and memory are not copied for
the hypotheses of a sentence; a sentence that is done leaves its batch at once. The search is that of
src/decode/beam.h, so that translations can be compared line by line. Prints one JSON object; its
seconds are those from words to translations, without loading and compiling. peak_mib is VmHWM.
"""
import argparse
import json
import time

import common

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("run", metavar="RUN", help="folder that `ebb train nmt` made")
parser.add_argument("source", metavar="SRC", help="text, a sentence a line")
parser.add_argument("--out", metavar="FILE", help="translations go there, in the order of SRC")
for name, default in (("beam", 5), ("batch", 64), ("threads", 2)):
    parser.add_argument(f"--{name}", type=int, default=default, metavar="N")
parser.add_argument("--mode", choices=("eager", "compile"), default="eager", help="compile: decoder steps by torch.compile")
parser.add_argument("--length-penalty", type=float, default=1.0, metavar="X", dest="alpha")
parser.add_argument("--max-ratio", type=float, default=2.0, metavar="X", dest="ratio")
chosen = parser.parse_args()
common.limit_cores(chosen.threads)

import torch  # noqa: E402  (after the cores are limited)

LIBRARY = common.resident_bytes("VmRSS")
from torch_nmt_model import EOS, Run, ids_of, read_lines, source_batch  # noqa: E402


class Search:
    """The sentences of a batch that are not done: B of them, K hypotheses each."""

    def __init__(self, model, sources):
        self.model, self.beam = model, chosen.beam
        self.source = model.encode(*source_batch(sources))
        count = len(sources)
        self.numbers = torch.arange(count)  # places of the sentences in the batch
        self.limits = torch.tensor([int(chosen.ratio * (len(source) - 1)) + 11 for source in sources])  # with <eos>
        self.state = model.start(count * self.beam)
        if self.source.start:  # every hypothesis of a sentence starts as the encoder ended
            self.state[:-1] = [[x.repeat_interleave(self.beam, 0) for x in layer] for layer in self.source.start]
        self.words = torch.full((count * self.beam,), EOS)
        self.sums = torch.full((count, self.beam), -torch.inf, dtype=torch.float64)
        self.sums[:, 0] = 0  # one hypothesis to start with
        self.tokens = torch.empty(count, self.beam, 0, dtype=torch.int64)
        self.ended = torch.zeros(count, dtype=torch.int64)
        self.best = torch.full((count,), -torch.inf, dtype=torch.float64)  # score of the best that is done
        self.found = [None] * count  # its tokens
        self.length = 0

    def offers(self):
        """The 2K likeliest continuations of every sentence: log probability, hypothesis, token, [B, 2K]."""
        self.state = self.model.step(self.source, self.model.tgt_embed(self.words), self.state)
        # First the best of each hypothesis: no slower than all K*V at once, and sums can have 64 bits as in ebb.
        top, ids = torch.log_softmax(self.model.out(self.state[-1][0]), 1).topk(2 * self.beam)
        sums, where = (self.sums[:, :, None] + top.view(*self.sums.shape, -1)).flatten(1).topk(2 * self.beam)
        return sums, where // (2 * self.beam), ids.view(len(sums), -1).gather(1, where)

    def finish(self, row, score, tokens):
        if score > self.best[row]:
            self.best[row] = score
            self.found[self.numbers[row]] = tokens

    def step(self):
        """One token; False when all sentences are done."""
        sums, parents, words = self.offers()
        self.length += 1
        ends = words == EOS
        for row, at in ends[:, :self.beam].nonzero().tolist():
            self.ended[row] += 1
            self.finish(row, sums[row, at] / self.length**chosen.alpha, self.tokens[row, parents[row, at]])
        alive = ends.to(torch.int8).argsort(stable=True, dim=1)[:, :self.beam]  # the first K without <eos>
        self.sums, parents, words = (x.gather(1, alive) for x in (sums, parents, words))
        self.tokens = torch.cat((self.tokens.gather(1, parents[:, :, None].expand(-1, -1, self.length - 1)), words[:, :, None]), 2)
        over = self.length >= self.limits
        for row in over.nonzero().flatten().tolist():
            self.finish(row, self.sums[row, 0] / self.length**chosen.alpha, self.tokens[row, 0])
        self.keep((~(over | (self.ended >= self.beam))).nonzero().flatten(), parents, words)
        return len(self.numbers) > 0

    def keep(self, rows, parents, words):
        """Only these sentences, their hypotheses in the new order."""
        if len(rows) < len(self.numbers):
            self.source = self.source.take(rows)
            for name in ("numbers", "limits", "sums", "tokens", "ended", "best"):
                setattr(self, name, getattr(self, name)[rows])
        self.words = words[rows].flatten()
        order = (rows[:, None] * self.beam + parents[rows]).flatten()
        self.state = [[x[order] for x in layer] for layer in self.state]


def translate(model, sentences):
    """Ids of the best translation of each, in their order."""
    by_length = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    found = [[]] * len(sentences)
    for first in range(0, len(by_length), chosen.batch):
        numbers = [number for number in by_length[first:first + chosen.batch] if len(sentences[number]) > 1]
        if not numbers:
            continue
        search = Search(model, [sentences[number] for number in numbers])
        while search.step():
            pass
        for number, tokens in zip(numbers, search.found):
            found[number] = tokens.tolist()
    return found


@torch.inference_mode()
def main():
    torch.set_num_threads(chosen.threads)
    run, lines = Run(chosen.run), read_lines(chosen.source)
    if chosen.mode == "compile":
        run.model.step = torch.compile(run.model.step, dynamic=True)
        translate(run.model, ids_of(lines, run.source, run.settings["max_len"]))  # all shapes, so that nothing is left to compile
    start = time.perf_counter()
    found = translate(run.model, ids_of(lines, run.source, run.settings["max_len"]))
    translations = [b" ".join(run.target[token] for token in tokens) for tokens in found]
    seconds = time.perf_counter() - start
    if chosen.out:
        with open(chosen.out, "wb") as file:
            file.writelines(line + b"\n" for line in translations)
    print(json.dumps({
        "engine": f"PyTorch {torch.__version__}", "mode": chosen.mode, "sentences": len(lines), "seconds": round(seconds, 3),
        "sentences_per_second": round(len(lines) / seconds, 2), "threads": chosen.threads,
        "peak_mib": round(common.resident_bytes("VmHWM") / 2**20, 1), "library_mib": round(LIBRARY / 2**20, 1),
    }))


if __name__ == "__main__":
    main()
