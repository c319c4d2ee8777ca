"""A wheel of what is built, installed by pip into an empty environment, works there without a compiler and without the source tree."""
import glob
import os
import re
import shutil
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


def made():
    os.environ["EBB_BUILD"] = BUILD
    return build_ebb.build_wheel(".")


def install(python, name, folder):
    """Into an environment that has nothing else."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    subprocess.run([f"{folder}/bin/python", "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", name], check=True, capture_output=True)


def other_pythons():
    """The oldest and the newest of other versions that are installed and can be used, by version."""
    found = {}
    for python in [shutil.which(f"python3.{minor}") for minor in range(9, 30)] + glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3")):
        asks = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
        told = subprocess.run([python, "-c", asks], capture_output=True, text=True) if python else None
        if told and told.returncode == 0:
            found.setdefault(tuple(map(int, told.stdout.split())), python)
    versions = sorted(version for version in found if version >= (3, 9) and version != sys.version_info[:2])
    return {version: found[version] for version in versions[:1] + versions[1:][-1:]}


def test_passes_its_tests_on_other_versions():
    pythons = other_pythons()
    if not pythons:
        print("SKIPPED test_passes_its_tests_on_other_versions: no other Python is installed")
    name = made()
    os.makedirs("bin")  # no compiler; a driver of OpenCL links what it has compiled itself, and ends the process where it cannot
    if shutil.which("ld"):
        os.symlink(shutil.which("ld"), "bin/ld")
    for version, python in pythons.items():
        folder = os.path.abspath(f"python{version[1]}")
        install(python, name, folder)
        plain = {"PATH": os.path.abspath("bin"), "HOME": os.getcwd(), "EBB_INSTALLED": "1", "EBB_TUNE": "off", "TMPDIR": os.getcwd()}
        for test in "test_package.py", "test_runs.py":
            done = subprocess.run([f"{folder}/bin/python", os.path.join(ROOT, "tests/python", test)], capture_output=True, text=True, env=plain)
            assert done.returncode == 0 and re.search(r"^\d\d?\d? passed, 0 failed$", done.stdout, re.M), (version, test, done.stdout[-3000:], done.stderr[-3000:])


def test_sources_have_all_that_is_installed():
    """A source archive can be configured, and what a wheel is built of is all that CMake then installs. (Compiling takes minutes.)"""
    if any(shutil.which(tool) is None for tool in ("cmake", "ninja")):
        print("SKIPPED test_sources_have_all_that_is_installed: no cmake or no ninja")
        return
    name = build_ebb.build_sdist(".")
    shutil.unpack_archive(name, ".")
    source, build = os.path.abspath(name.removesuffix(".tar.gz")), os.path.abspath("build")
    assert os.path.exists(f"{source}/PKG-INFO") and os.path.exists(f"{source}/ebb/__init__.py") and os.path.exists(f"{source}/ebb/py.typed")
    configure = ["cmake", "-S", f"{source}/native", "-B", build, "-G", "Ninja", "-DEBB_TESTS=OFF", "-DEBB_MPI=OFF"]
    done = subprocess.run(configure, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    made = subprocess.run(["ninja", "-C", build, "-t", "inputs", *build_ebb.TARGETS], capture_output=True, text=True, check=True).stdout
    with open(f"{build}/cmake_install.cmake", encoding="utf8") as file:
        wanted = re.findall(rf'"{re.escape(build)}/([^"$]+)"', file.read())
    made += "share/" if "ebb_manuals" in build_ebb.TARGETS else ""  # ninja does not tell what that writes
    assert len(wanted) > 5 and all(os.path.exists(f"{build}/{path}") or path.split(".so")[0] in made for path in wanted), (wanted, made[-500:])
    os.mkdir("info")
    assert os.path.exists(f"info/{build_ebb.prepare_metadata_for_build_wheel('info')}/METADATA")


def test_installs_into_an_empty_environment():
    name = made()
    assert name.startswith("ebb-") and "manylinux_2_" in name
    inside = zipfile.ZipFile(name).namelist()
    assert "ebb/_prefix/bin/ebb" in inside and any(path.startswith("ebb/_prefix/lib/ebb/libjansson") for path in inside) and "ebb/py.typed" in inside
    assert not any("libc.so" in path or "libxsmm" in path or "mpi" in path for path in inside), inside
    install(sys.executable, name, "empty")
    text("t.txt", 100)
    plain = {"PATH": "/nowhere", "HOME": os.getcwd()}
    done = subprocess.run(["empty/bin/python", "-c", SCRIPT], capture_output=True, text=True, env=plain)
    assert done.returncode == 0 and done.stdout.strip() == "True 3", done.stderr
    assert subprocess.run(["empty/bin/ebb", "--version"], capture_output=True, text=True, env=plain).stdout.startswith("ebb ")
    loaded = subprocess.run(["ldd", subprocess.run(["find", "empty", "-name", "libebb.so.0"], capture_output=True, text=True).stdout.strip()], capture_output=True, text=True).stdout
    assert loaded.count("/empty/") >= 5 and "not found" not in loaded, loaded


main(globals())
