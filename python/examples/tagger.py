"""A sequence tagger: a GRU reads digits and says after each whether the sum so far is even. One graph trains, one tags, over one set of
weights in one memory; halfway the whole run goes to a file, and new programs go on from it. Needs NumPy."""
import os
import tempfile

import numpy as np

import ebb

T, B, E, H = 12, 32, 8, 32  # positions, sequences, embedding, units


def build(training):
    g = ebb.Graph()
    ids, h = g.input("digits", (T * B,), "int32"), g.input("start", (B, H))
    table, out = g.param("table", (10, E)), g.param("out", (2, H))
    wx, bx = g.param("wx", (3 * H, E)), g.param("bx", (3 * H,))
    wh, bh = g.param("wh", (3 * H, H)), g.param("bh", (3 * H,))
    states = []
    for t in range(T):
        with g.layer("gru"), g.time(t):
            h = ebb.gru_cell(ebb.embed(table, ids[t * B:(t + 1) * B]) @ wx.T + bx, h @ wh.T + bh, h)
            states.append(h)
    logits = ebb.stack(states) @ out.T
    if training:
        g.loss(ebb.cross_entropy(logits, g.input("tags", (T * B,), "int32")))
    else:
        g.output("scores", logits)
    return g


def draw(dice):
    digits = dice.integers(0, 10, (T, B), dtype="int32")
    return digits.reshape(-1), (digits.cumsum(0) % 2).astype("int32").reshape(-1)


def compiled():
    return ebb.compile_all([build(True), build(False)], train=1, optimizer="adam", clip=1)


dice = np.random.default_rng(1)
train, tag = compiled()
for step in range(2001):
    digits, tags = draw(dice)
    loss = train.step(lr=0.005, digits=digits, tags=tags)
    if step % 500 == 0:
        print(f"step {step:4}: loss {loss:.5f}")
    if step == 1000:  # as if the machine had been switched off
        with tempfile.TemporaryDirectory() as folder:
            train.save_all(os.path.join(folder, "tagger.safetensors"))
            train, tag = compiled()
            train.load_all(os.path.join(folder, "tagger.safetensors"))
digits, tags = draw(dice)
tag.step(digits=digits)
print(f"{int((tag['scores'].argmax(1) == tags).sum())} of {T * B} tags are right")
