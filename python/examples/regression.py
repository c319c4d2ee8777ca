"""A small network learns y = sin(3 x0) x1, in a megabyte. Needs NumPy."""
import numpy as np

import ebb

g = ebb.Graph()
x, y = g.input("x", (64, 2)), g.input("y", (64, 1))
hidden = ebb.tanh(x @ g.param("w", (32, 2)).T + g.param("b", (32,)))
guess = hidden @ g.param("v", (1, 32)).T + g.param("c", (1,))
g.output("guess", guess)
program = ebb.compile(ebb.mean((guess - y) ** 2), memory="1M", optimizer="adam")

dice = np.random.default_rng(1)
for step in range(2001):
    xs = dice.uniform(-1, 1, (64, 2)).astype("float32")
    loss = program.step(lr=0.01, x=xs, y=(np.sin(3 * xs[:, :1]) * xs[:, 1:]).astype("float32"))
    if step % 500 == 0:
        print(f"step {step:4}: loss {loss:.5f}")
print(f"{program.plan.peak_bytes} bytes planned, {program.measured_bytes} used")
