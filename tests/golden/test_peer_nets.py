"""Small named nets against PyTorch, live: tools/golden/compare_nets.py.

Needs torch and torchvision; env PEER_PYTHON may name an interpreter that has them. Without: exit code 77."""
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable if importlib.util.find_spec("torchvision") else os.environ.get("PEER_PYTHON")
if PYTHON is None:
    print("SKIPPED test_peer_nets.py: no torchvision; set PEER_PYTHON to an interpreter with torch and torchvision")
    sys.exit(77)
build = os.environ.get("EBB_BUILD", ROOT / "build")
NETS = ["lenet", "resnet8_cifar:16", "vgg16:32", "googlenet:64", "resnet18:33"]
done = subprocess.run([PYTHON, ROOT / "tools/golden/compare_nets.py", "--build", build, "--batch", "6,9", *NETS],
                      capture_output=True, text=True, check=False)
print(done.stdout, done.stderr, sep="", end="")
lines = done.stdout.splitlines()
bad = sum(not line.endswith(": agrees") for line in lines)
print(f"{len(lines) - bad} passed, {bad if done.returncode == 0 or bad else 1} failed")
sys.exit(bool(done.returncode or bad or len(lines) != 2 * len(NETS)))
