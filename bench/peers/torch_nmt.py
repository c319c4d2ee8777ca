#!/usr/bin/env python3
"""Speed peer: the training step of `ebb bench nmt --feed` in PyTorch, three ways to trade time for memory.

eager keeps what autograd keeps; checkpoint computes every attention again when its gradient is
needed; compile lets torch.compile decide, with --activation-budget as the share of the kept bytes
that it may use (1: what it would keep by itself, 0: recompute all it can).
Prints one JSON object (see common.py). Encoder: PyTorch's own bidirectional nn.LSTM. Decoder: an
nn.LSTMCell a step, attention from its output, the mixed vector fed to the next step. Fused Adam.
"""
import common

chosen = common.nmt_options(__doc__.splitlines()[0], ("eager", "checkpoint", "compile"), **{"activation-budget": 1.0})
common.limit_cores(chosen.threads)

import torch  # noqa: E402  (after the cores are limited)
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

LOADED = common.resident_bytes("VmRSS")
import torch._dynamo  # noqa: E402,F401  (the first optimiser step would load it, in any mode)
from torch._functorch import config as partitioner  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402


class Translation(nn.Module):
    """Layers and sizes of src/model/nmt.h: S source positions, T target positions, B pairs, H hidden."""

    def __init__(self, o):
        super().__init__()
        size = o.hidden
        self.src_embed, self.tgt_embed = nn.Embedding(o.vocab, size), nn.Embedding(o.vocab, size)
        self.enc = nn.LSTM(size, size // 2, bidirectional=True)
        self.dec = nn.LSTMCell(2 * size, size)
        self.key, self.query = nn.Linear(size, size, bias=False), nn.Linear(size, size)
        self.score = nn.Linear(size, 1, bias=False)
        self.mix, self.out = nn.Linear(2 * size, size), nn.Linear(size, o.vocab)

    @torch.compiler.disable
    def encode(self, source):
        """[S, B] to [B, S, H]; stays PyTorch's own kernel, at which torch.compile would give up."""
        return self.enc(self.src_embed(source))[0].transpose(0, 1).contiguous()

    def attend(self, keys, memory, hidden):
        """keys, memory [B, S, H], hidden [B, H]: the context [B, H]."""
        scores = self.score(torch.tanh(keys + self.query(hidden)[:, None])).squeeze(2)
        return torch.bmm(F.softmax(scores, 1)[:, None], memory)[:, 0]

    def decode(self, memory, inputs, targets):
        """memory [B, S, H]; inputs, targets [T, B]: the mean loss."""
        keys, embedded = self.key(memory), self.tgt_embed(inputs)
        fed = hidden = cell = memory.new_zeros(memory.shape[0], memory.shape[2])
        mixed = []
        for word in embedded:
            hidden, cell = self.dec(torch.cat((word, fed), 1), (hidden, cell))
            if chosen.mode == "checkpoint":
                context = checkpoint(self.attend, keys, memory, hidden, use_reentrant=False)
            else:
                context = self.attend(keys, memory, hidden)
            fed = torch.tanh(self.mix(torch.cat((hidden, context), 1)))
            mixed.append(fed)
        return F.cross_entropy(self.out(torch.stack(mixed)).flatten(0, 1), targets.flatten())

    def forward(self, source, inputs, targets):
        return self.decode(self.encode(source), inputs, targets)


def load_compiler():
    """Compiles something tiny, so that what torch.compile loads is told from what the model needs."""
    torch.compile(lambda x: (x @ x).tanh().sum())(torch.ones(8, 8, requires_grad=True)).backward()


def main():
    torch.set_num_threads(chosen.threads)
    torch.manual_seed(chosen.seed)
    if chosen.mode == "compile":
        load_compiler()
    late = common.resident_bytes("VmRSS") - LOADED
    model = Translation(chosen)
    forward = model
    if chosen.mode == "compile":
        partitioner.activation_memory_budget = chosen.activation_budget
        forward = torch.compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=chosen.lr, fused=True)
    source = torch.randint(chosen.vocab, (chosen.src_len, chosen.batch))
    inputs, targets = torch.randint(chosen.vocab, (2, chosen.tgt_len, chosen.batch))

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = forward(source, inputs, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), chosen.clip, foreach=True)
        optimizer.step()
        return loss.item()

    common.measure(step, chosen, f"PyTorch {torch.__version__}", LOADED, late)


if __name__ == "__main__":
    main()
