#!/usr/bin/env python3
"""Peer of `ebb train nmt` on real text: the same model, PyTorch as it is used well on a CPU.

Batches of similar lengths: the pairs are shuffled, pools of them sorted by length and cut in batches, the
batches shuffled; a batch is padded to its own longest. Only labels that are not padding are projected to
the vocabulary. Fused Adam, clipping over lists.
Prints one JSON object. words_per_second counts target words that are not padding, <eos> included, and
the time of training only: a number for each --log-every steps, as in ebb's metrics.jsonl.
"""
import argparse
import json
import random
import sys
import time

import common

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("train", nargs=2, metavar="FILE", help="two texts, line by line")
parser.add_argument("--mode", choices=("eager", "compile"), default="eager", help="compile: decoder steps by torch.compile")
for name, default in (("embed", 256), ("hidden", 512), ("vocab", 10000), ("batch", 64), ("pool", 50), ("max-len", 100),
                      ("epochs", 1), ("steps", 0), ("log-every", 50), ("threads", 2), ("seed", 1)):
    parser.add_argument(f"--{name}", type=int, default=default, metavar="N")
for name, default in (("dropout", 0.3), ("smoothing", 0.1), ("lr", 1e-3), ("clip", 1.0)):
    parser.add_argument(f"--{name}", type=float, default=default, metavar="X")
chosen = parser.parse_args()
common.limit_cores(chosen.threads)

import torch  # noqa: E402  (after the cores are limited)

LIBRARY = common.resident_bytes("VmRSS")
from torch_nmt_model import Translator, make_vocabulary, pair_batch, read_lines, read_pairs  # noqa: E402


def batches_of(pairs):
    """Those of one epoch."""
    random.shuffle(pairs)
    size = chosen.batch * chosen.pool
    made = []
    for first in range(0, len(pairs), size):
        pool = sorted(pairs[first:first + size], key=lambda pair: (len(pair[0]), len(pair[1])))
        made += [pool[at:at + chosen.batch] for at in range(0, len(pool), chosen.batch)]
    random.shuffle(made)
    return made


def endless(pairs):
    while True:
        yield from batches_of(pairs)


def train(model, pairs):
    """(words/s of each window of steps, mean losses of them)"""
    if chosen.mode == "compile":  # one step: of the loop over T every length would be compiled by itself
        model.step = torch.compile(model.step, dynamic=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=chosen.lr, fused=True)
    steps = chosen.steps or chosen.epochs * len(batches_of(pairs))
    speeds, losses, words, loss_sum, start = [], [], 0, 0.0, time.perf_counter()
    for step, batch in zip(range(1, steps + 1), endless(pairs)):
        optimizer.zero_grad(set_to_none=True)
        loss = model(*pair_batch(batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), chosen.clip, foreach=True)
        optimizer.step()
        words += sum(len(target) for _, target in batch)
        loss_sum += loss.item()
        if step % chosen.log_every == 0 or step == steps:
            now = time.perf_counter()
            speeds.append(words / (now - start))
            losses.append(loss_sum / (step - chosen.log_every * (len(losses))))
            print(f"step {step}/{steps}: loss {losses[-1]:.4f}, {speeds[-1]:.0f} words/s", file=sys.stderr, flush=True)
            words, loss_sum, start = 0, 0.0, now
    return speeds, losses


def main():
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(chosen.seed)
    random.seed(chosen.seed)
    vocabularies = [make_vocabulary(read_lines(text), chosen.vocab) for text in chosen.train]
    pairs = read_pairs(chosen.train, vocabularies, chosen.max_len)
    model = Translator(dict(cell="lstm", attention="mlp", feed=True, layer_norm=False, tie=False, tie_src=False, enc_layers=1,
                            dec_layers=1, src_vocab=len(vocabularies[0]), tgt_vocab=len(vocabularies[1]), embed=chosen.embed,
                            hidden=chosen.hidden, dropout=chosen.dropout, smoothing=chosen.smoothing))
    speeds, losses = train(model, pairs)
    print(json.dumps({
        "engine": f"PyTorch {torch.__version__}", "mode": chosen.mode, "threads": chosen.threads,
        "words_per_second": [round(speed, 1) for speed in speeds], "loss": [round(loss, 4) for loss in losses],
        "peak_mib": round(common.resident_bytes("VmHWM") / 2**20, 1), "library_mib": round(LIBRARY / 2**20, 1),
    }))


if __name__ == "__main__":
    main()
