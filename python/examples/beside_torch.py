"""The same small model in ebb and in PyTorch, from the same weights, on the same batches: the losses are equal to the last digits of float32.
Ends with a word where PyTorch is not installed."""
import sys

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(0)

import ebb

torch.manual_seed(1)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(20, 40), torch.nn.Tanh(), torch.nn.Linear(40, 5))
rule = torch.optim.Adam(net.parameters(), lr=0.01)

g = ebb.Graph()
x, y = g.input("x", (32, 20)), g.input("y", (32,), "int32")
hidden = ebb.tanh(x @ g.param("0.weight", (40, 20)).T + g.param("0.bias", (40,)))
loss = ebb.cross_entropy(hidden @ g.param("2.weight", (5, 40)).T + g.param("2.bias", (5,)), y)
program = ebb.compile(loss, memory="1M", optimizer="adam")
for name, tensor in net.named_parameters():
    program[name] = tensor  # straight from PyTorch's memory, by DLPack

worst = 0.0
for step in range(200):
    xs = torch.randn(32, 20)
    ys = (xs[:, :5].argmax(1)).to(torch.int32)
    found = torch.nn.functional.cross_entropy(net(xs), ys.long())
    rule.zero_grad()
    found.backward()
    rule.step()
    mine = program.step(lr=0.01, x=xs, y=ys)
    worst = max(worst, abs(mine - found.item()))
    if step % 50 == 0:
        print(f"step {step:3}: ebb {mine:.7f}, PyTorch {found.item():.7f}")
weights = torch.from_dlpack(program.view("0.weight")) if hasattr(program.view("0.weight"), "__dlpack__") else None
print(f"losses differ by {worst:.2e} at most" + (f"; weights by {(weights - net[0].weight).abs().max().item():.2e}" if weights is not None else ""))
sys.exit(worst > 1e-4)
