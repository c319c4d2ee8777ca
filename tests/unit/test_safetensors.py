#!/usr/bin/env python3
"""Compares ebb's safetensors reader and writer with Python's safetensors package.

Usage: test_safetensors.py [path of the test_safetensors program]

Python writes a file, `test_safetensors copy` reads it and writes it again, Python reads that: every
tensor must be the same bits, and an nn.LSTM must load it unchanged. Needs numpy and safetensors (and
torch for the LSTM); env PEER_PYTHON may name an interpreter that has them. Without: exit code 77.
"""
import os
import subprocess
import sys
import tempfile

SKIPPED = 77


def skip(why):
    print(f"SKIPPED test_safetensors.py: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


try:
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError as missing:
    peer = os.environ.get("PEER_PYTHON")
    if peer and not os.environ.get("EBB_PEER_TRIED"):
        os.execve(peer, [peer, *sys.argv], {**os.environ, "EBB_PEER_TRIED": "1"})
    skip(f"{missing}; set PEER_PYTHON to an interpreter with numpy, safetensors and torch")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("EBB_BUILD", os.path.join(ROOT, "build"))
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else os.path.join(BUILD, "tests/unit/test_safetensors")


def copy(source, target):
    return subprocess.run([PROGRAM, "copy", source, target], capture_output=True, text=True)


def check_numpy(folder):
    source, target = os.path.join(folder, "a.safetensors"), os.path.join(folder, "b.safetensors")
    rng = np.random.default_rng(1)
    tensors = {
        "f32": rng.standard_normal((3, 5)).astype(np.float32),
        "f64": rng.standard_normal((2, 1, 4)),
        "f16": rng.standard_normal(7).astype(np.float16),
        "i64": np.array([-(2**63), 2**63 - 1], np.int64),
        "i32": np.arange(24, dtype=np.int32).reshape(1, 2, 3, 4),
        "i16": np.array([-1, 1], np.int16),
        "u8": np.array([0, 255], np.uint8),
        "bool": np.array([True, False]),
        "scalar": np.array(1.5, np.float32),
        "empty": np.zeros((0, 3), np.float32),
        'odd "name"\n\u00e9': np.array([np.nan, np.inf, -0.0], np.float32),
    }
    notes = {"format": "np", "quote": '"\\'}
    save_file(tensors, source, metadata=notes)
    result = copy(source, target)
    assert result.returncode == 0, result.stderr
    back = load_file(target)
    assert sorted(back) == sorted(tensors)
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and back[name].shape == tensor.shape, name
        assert back[name].tobytes() == tensor.tobytes(), name
    with safe_open(target, "np") as file:
        assert file.metadata() == notes
    again = os.path.join(folder, "c.safetensors")
    assert copy(target, again).returncode == 0
    with open(target, "rb") as x, open(again, "rb") as y:
        assert x.read() == y.read(), "a second copy differs"


def check_unknown_type(folder):
    path = os.path.join(folder, "u.safetensors")
    save_file({"x": np.zeros(2, np.uint32)}, path)
    result = copy(path, path + ".out")
    assert result.returncode == 5 and "tensor 'x': dtype" in result.stderr, result


def check_torch(folder):
    try:
        import torch
        from safetensors.torch import load_file as load, save_file as save
    except ImportError as missing:
        skip(f"{missing}: the LSTM part")
    source, target = os.path.join(folder, "t.safetensors"), os.path.join(folder, "v.safetensors")
    lstm = torch.nn.LSTM(5, 7, num_layers=2)
    save(lstm.state_dict(), source)
    result = copy(source, target)
    assert result.returncode == 0, result.stderr
    other = torch.nn.LSTM(5, 7, num_layers=2)
    other.load_state_dict(load(target))
    x = torch.randn(4, 3, 5)
    assert torch.equal(lstm(x)[0], other(x)[0])


with tempfile.TemporaryDirectory() as scratch:
    check_numpy(scratch)
    check_unknown_type(scratch)
    check_torch(scratch)
print("test_safetensors.py: same bits as Python's safetensors")
