"""What the tests of the Python package share: where it is, the harness of the command's tests, and an interpreter with NumPy if there is one."""
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests/cli")]
INSTALLED = bool(os.environ.get("EBB_INSTALLED"))  # the package that is installed is tested, with all that it brings
if INSTALLED:
    os.environ.pop("EBB", None)
    os.environ.pop("EBB_LIBRARY", None)
    from ebb import command
    os.environ["EBB"] = command.path()
else:
    os.environ.setdefault("EBB", os.path.join(ROOT, "build/ebb"))
    os.environ["EBB"] = os.path.abspath(os.environ["EBB"])
    os.environ.setdefault("EBB_LIBRARY", os.path.join(os.path.dirname(os.environ["EBB"]), "libebb.so"))
    os.environ["PYTHONPATH"] = os.path.join(ROOT, "python")
    sys.path.insert(0, os.environ["PYTHONPATH"])
BUILD = os.path.dirname(os.environ["EBB"])


def skip(why):
    print(f"SKIPPED {os.path.basename(sys.argv[0])}: {why}")
    sys.exit(77)


def need_library():
    if os.environ.get("EBB_SANITIZE"):
        skip("a library with sanitizers cannot be loaded into Python")
    if sys.version_info < (3, 9):
        skip("Python 3.9 or newer is needed")


def need_numpy():
    """Goes on with an interpreter that has NumPy: this one, or the system's."""
    for python in sys.executable, "/usr/bin/python3":
        found = os.path.exists(python) and subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0
        if found and python == sys.executable:
            return
        if found:
            os.execv(python, [python, *sys.argv])
    skip("no NumPy (Debian: python3-numpy)")
