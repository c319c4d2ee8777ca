"""How many elements of what waits for the backward pass are above 0, by layer, as training goes on: what `--density` is
about. ebb trains, PyTorch looks at the maps of one batch with the weights that were saved.

Usage: density_cnn.py FOLDER [--net NET|FILE] [--batch 128] [--steps 1,20,200] [--ebb build/ebb]    (FOLDER: CIFAR-10's binary files)
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from accuracy_cnn import read
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/golden"))
from net_torch import Net  # noqa: E402


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    return done.stdout


def densities(net, weights, x):
    """{layer: share above 0} of relus and max pools."""
    seen, found = {}, {}
    with torch.no_grad():
        net(x, weights, True, seen)
    made = {layer.name: layer.op for layer in net.layers}
    for layer, operand in seen.values():
        if made.get(layer.reads[0]) in ("relu", "maxpool"):
            found[layer.reads[0]] = (operand > 0).float().mean().item()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    for name, usual in {"net": "resnet20_cifar", "steps": "1,20,200", "ebb": "build/ebb"}.items():
        parser.add_argument(f"--{name}", default=usual)
    parser.add_argument("--batch", type=int, default=128)
    o = parser.parse_args()
    text = run(o.ebb, "inspect", o.net)
    pixels, _ = read(o.folder, "data_batch_*.bin*")
    columns = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "net.txt").write_text(text, encoding="utf8")
        for steps in o.steps.split(","):
            run(o.ebb, "train", "cnn", "--net", path / "net.txt", "--train", o.folder, "--valid", o.folder, "--batch", o.batch, "--momentum", 0.9,
                "--steps", steps, "--out", path / steps, "--quiet")
            card = json.loads((path / steps / "images.json").read_text(encoding="utf8"))
            mean, deviation = (torch.tensor(card[key]).view(1, -1, 1, 1) for key in ("mean", "deviation"))
            x = (pixels[:o.batch] - mean) / deviation
            columns[steps] = densities(Net(text), load_file(path / steps / "last.safetensors"), x)
    print("| layer | " + " | ".join(f"after {steps}" for steps in columns) + " |\n|---|" + "---|" * len(columns))
    for layer in next(iter(columns.values())):
        print(f"| {layer} | " + " | ".join(f"{one[layer]:.2f}" for one in columns.values()) + " |")


if __name__ == "__main__":
    main()
