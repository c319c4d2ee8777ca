#!/usr/bin/env python3
"""Speed peer: the training step of `ebb bench lm` in PyTorch, eager or through torch.compile.

Prints one JSON object (see common.py). Uses PyTorch's own multi-layer nn.LSTM / nn.GRU / nn.RNN, a
fused SGD and clipping over lists of tensors: the fastest of its variants, if by little.
"""
import common

chosen = common.options(__doc__.splitlines()[0], ("eager", "compile"))
common.limit_cores(chosen.threads)

import torch  # noqa: E402  (after the cores are limited)
from torch import nn  # noqa: E402

LOADED = common.resident_bytes("VmRSS")
import torch._dynamo  # noqa: E402,F401  (the first optimiser step would load it, in any mode)

CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class LanguageModel(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embed = nn.Embedding(o.vocab, o.embed)
        # PyTorch warns where there is no layer to drop between.
        self.rnn = CELLS[o.cell](o.embed, o.hidden, o.layers, dropout=o.dropout if o.layers > 1 else 0)
        self.drop = nn.Dropout(o.dropout) if o.dropout > 0 else nn.Identity()
        self.out = nn.Linear(o.hidden, o.vocab)

    @torch.compiler.disable
    def recur(self, values, state):
        """Stays PyTorch's own kernel under torch.compile too, which by itself would give up here."""
        return self.rnn(values, state)

    def forward(self, inputs, targets, state):
        hidden, state = self.recur(self.drop(self.embed(inputs)), state)
        logits = self.out(self.drop(hidden))
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()), state


def main():
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(chosen.seed)
    late = common.resident_bytes("VmRSS") - LOADED
    model = LanguageModel(chosen)
    forward = torch.compile(model) if chosen.mode == "compile" else model
    optimizer = torch.optim.SGD(model.parameters(), lr=chosen.lr, fused=True)
    shape = (chosen.bptt, chosen.batch)
    inputs, targets = torch.randint(chosen.vocab, shape), torch.randint(chosen.vocab, shape)
    zeros = torch.zeros(chosen.layers, chosen.batch, chosen.hidden)
    state = (zeros, zeros.clone()) if chosen.cell == "lstm" else zeros

    def step():
        nonlocal state
        optimizer.zero_grad(set_to_none=True)
        loss, after = forward(inputs, targets, state)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), chosen.clip, foreach=True)
        optimizer.step()
        state = tuple(s.detach() for s in after) if chosen.cell == "lstm" else after.detach()
        return loss.item()

    common.measure(step, chosen, f"PyTorch {torch.__version__}", LOADED, late)


if __name__ == "__main__":
    main()
