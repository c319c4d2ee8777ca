"""A wheel of what is built, installed by pip into an empty environment, works there without a compiler and without the source tree."""
import os
import subprocess
import sys
import zipfile

from pytest_ebb import BUILD, ROOT, need_library, skip

need_library()
if subprocess.run([sys.executable, "-c", "import venv, ensurepip"], capture_output=True).returncode != 0:
    skip("no venv (Debian: python3-venv)")
sys.path.insert(0, os.path.join(ROOT, "python/backend"))
import build_ebb  # noqa: E402
from ebbtest import main, text  # noqa: E402

SCRIPT = """
import array, ebb, os, sys
from ebb import _native, command
assert "site-packages" in ebb.__file__ and str(_native.PREFIX) in command.path()
g = ebb.Graph()
x = g.input("x", (2, 3))
p = ebb.compile(ebb.mean((x @ g.param("w", (2, 3)).T) ** 2), memory="1M", optimizer="adam")
p["x"] = memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3))
first = p.step(lr=0.1)
for _ in range(50): last = p.step(lr=0.1)
assert last < first / 2
run = ebb.train("lm", "run", train="t.txt", hidden=8, steps=10, memory="32M", quiet=True)
print(len(run.generate(tokens=10)) > 10, run.score(["w1 w2"])[0].tokens)
"""


def test_installs_into_an_empty_environment():
    os.environ["EBB_BUILD"] = BUILD
    name = build_ebb.build_wheel(".")
    again = build_ebb.build_wheel(os.path.join(os.getcwd()))
    assert name == again and name.startswith("ebb-") and "manylinux_2_" in name
    inside = zipfile.ZipFile(name).namelist()
    assert "ebb/_prefix/bin/ebb" in inside and any(path.startswith("ebb/_prefix/lib/ebb/libjansson") for path in inside) and "ebb/py.typed" in inside
    assert not any("libc.so" in path or "libxsmm" in path or "mpi" in path for path in inside), inside
    subprocess.run([sys.executable, "-m", "venv", "empty"], check=True)
    subprocess.run(["empty/bin/python", "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", name], check=True, capture_output=True)
    text("t.txt", 100)
    plain = {"PATH": "/nowhere", "HOME": os.getcwd()}
    done = subprocess.run(["empty/bin/python", "-c", SCRIPT], capture_output=True, text=True, env=plain)
    assert done.returncode == 0 and done.stdout.strip() == "True 3", done.stderr
    assert subprocess.run(["empty/bin/ebb", "--version"], capture_output=True, text=True, env=plain).stdout.startswith("ebb ")
    loaded = subprocess.run(["ldd", subprocess.run(["find", "empty", "-name", "libebb.so.0"], capture_output=True, text=True).stdout.strip()], capture_output=True, text=True).stdout
    assert loaded.count("/empty/") >= 5 and "not found" not in loaded, loaded


main(globals())
