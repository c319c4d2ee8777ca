#!/bin/bash
# Makes the Python that peers are run with: a virtual environment in build/peers (needs python3 with
# its venv module, and about 6 GB of disk for PyTorch as the package index gives it).
# Usage: bench/peers/setup.sh [PYTHON]    (PYTHON: what to make it from, default python3)
# With PEER_PYTHON in the environment that Python is used as it is and nothing is made.
set -eu
cd "$(dirname "$0")/../.."

python=${1:-python3}
wanted=bench/peers/requirements.txt
target=build/peers

if [ -n "${PEER_PYTHON:-}" ]; then
    echo "peers run with $PEER_PYTHON"
    exit 0
fi
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "setup.sh: $python has no venv module; on Debian install python3-venv" >&2
    exit 1
fi
if ! cmp -s "$wanted" "$target/installed.txt"; then
    echo "making $target (torch, jax; a few minutes)"
    "$python" -m venv "$target"
    "$target/bin/python" -m pip install --quiet --disable-pip-version-check -r "$wanted"
    cp "$wanted" "$target/installed.txt"
fi
echo "peers run with $target/bin/python"
