#!/usr/bin/env python3
"""Peer: the model of `ebb train lm` in PyTorch, for comparing perplexity after some epochs.

Equal to ebb: tokens (white space, every line ends in <eos>), vocabulary (<unk>, <eos>, then by
count, ties in byte order), batch columns and windows, carried state, model, places of dropout,
distribution of the starting weights (or, with --init, the weights), clipping, optimiser, scoring.
Different: the random draws.
Prints one JSON object: validation perplexity after each epoch, training words/s of each.
"""
import argparse
import json
import math
import sys
import time
from collections import Counter

import torch
from safetensors.torch import load_file, save_file
from torch import nn

UNK, EOS, IGNORED = 0, 1, -1
CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", required=True, metavar="FILE")
    parser.add_argument("--valid", required=True, metavar="FILE")
    parser.add_argument("--cell", choices=sorted(CELLS), default="lstm")
    for name, default in (("layers", 2), ("hidden", 200), ("embed", 0), ("vocab", 10000),
                          ("batch", 20), ("bptt", 35), ("epochs", 3), ("threads", 2), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in (("dropout", 0.0), ("lr", 1.0), ("momentum", 0.0), ("clip", 5.0)):
        parser.add_argument(f"--{name}", type=float, default=default)
    parser.add_argument("--tie", action="store_true")
    parser.add_argument("--init", metavar="FILE", help="safetensors file with the starting weights")
    parser.add_argument("--save-init", metavar="FILE", help="write the starting weights there")
    return parser.parse_args()


def read_tokens(path):
    """The words of a file as bytes; <eos> at the end of every line, also an unfinished last one."""
    with open(path, "rb") as file:
        text = file.read().removeprefix(b"\xef\xbb\xbf")
    lines = text.removesuffix(b"\n").split(b"\n")
    return [word for line in lines for word in (*line.split(), b"<eos>")]


def make_vocabulary(tokens, limit):
    counts = Counter(tokens)
    del counts[b"<eos>"]
    del counts[b"<unk>"]
    words = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: i for i, word in enumerate([b"<unk>", b"<eos>", *words][:limit or None])}


def make_windows(tokens, vocabulary, batch, bptt):
    """[(inputs, targets)], each [T, B]: columns of ceil((N - 1) / B) pairs, short ones padded."""
    ids = torch.tensor([vocabulary.get(word, UNK) for word in tokens])
    pairs = len(ids) - 1
    length = -(-pairs // batch)
    steps = -(-length // bptt) * bptt
    columns = []
    for data, filler in ((ids[:-1], EOS), (ids[1:], IGNORED)):
        full = torch.full((batch * length,), filler)
        full[:pairs] = data
        padded = torch.full((steps, batch), filler)
        padded[:length] = full.view(batch, length).t()
        columns.append(padded.split(bptt))
    return list(zip(*columns))


class LanguageModel(nn.Module):
    def __init__(self, o, vocab):
        super().__init__()
        embed = o.embed or o.hidden
        self.embed = nn.Embedding(vocab, embed)
        # PyTorch warns where there is no layer to drop between.
        self.rnn = CELLS[o.cell](embed, o.hidden, o.layers, dropout=o.dropout if o.layers > 1 else 0)
        self.drop = nn.Dropout(o.dropout)
        self.out = nn.Linear(o.hidden, vocab)
        if o.tie:
            self.out.weight = self.embed.weight
            bound = o.hidden ** -0.5  # as ebb: a normal embedding would make huge logits
            nn.init.uniform_(self.embed.weight, -bound, bound)

    def forward(self, inputs, targets, state):
        hidden, state = self.rnn(self.drop(self.embed(inputs)), state)
        logits = self.out(self.drop(hidden))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        return loss, state


def detached(state):
    return tuple(s.detach() for s in state) if isinstance(state, tuple) else state.detach()


def train_epoch(model, optimizer, windows, clip):
    model.train()
    state = None
    for inputs, targets in windows:
        optimizer.zero_grad(set_to_none=True)
        loss, state = model(inputs, targets, state)
        loss.backward()
        state = detached(state)
        if clip > 0:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


@torch.no_grad()
def perplexity(model, windows):
    model.eval()
    state, total, count = None, 0.0, 0
    for inputs, targets in windows:
        loss, state = model(inputs, targets, state)
        valid = int((targets != IGNORED).sum())
        total += loss.item() * valid
        count += valid
    return math.exp(total / count)


def main():
    o = options()
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    train_tokens = read_tokens(o.train)
    vocabulary = make_vocabulary(train_tokens, o.vocab)
    train = make_windows(train_tokens, vocabulary, o.batch, o.bptt)
    valid = make_windows(read_tokens(o.valid), vocabulary, o.batch, o.bptt)
    model = LanguageModel(o, len(vocabulary))
    if o.init:
        # A tied file has no out.weight, a tied model has it twice.
        missing, unexpected = model.load_state_dict(load_file(o.init), strict=False)
        if unexpected or set(missing) - ({"out.weight"} if o.tie else set()):
            raise SystemExit(f"{o.init}: missing {missing}, unexpected {unexpected}")
    if o.save_init:
        save_file({name: tensor for name, tensor in model.state_dict().items()
                   if not (o.tie and name == "out.weight")}, o.save_init)
    optimizer = torch.optim.SGD(model.parameters(), lr=o.lr, momentum=o.momentum)
    perplexities, speeds = [], []
    for epoch in range(1, o.epochs + 1):
        start = time.perf_counter()
        train_epoch(model, optimizer, train, o.clip)
        speeds.append((len(train_tokens) - 1) / (time.perf_counter() - start))
        perplexities.append(perplexity(model, valid))
        print(f"{o.cell} epoch {epoch}: perplexity {perplexities[-1]:.2f}, {speeds[-1]:.0f} words/s",
              file=sys.stderr)
    print(json.dumps({"peer": f"torch {torch.__version__}", "cell": o.cell, "vocab": len(vocabulary),
                      "train_tokens": len(train_tokens), "threads": o.threads,
                      "valid_perplexity": [round(p, 3) for p in perplexities],
                      "words_per_second": [round(s, 1) for s in speeds]}))


if __name__ == "__main__":
    main()
