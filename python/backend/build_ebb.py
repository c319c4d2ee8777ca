"""Builds wheels and source archives of the package (PEP 517), with the standard library alone.

A wheel holds the package and, below ebb/_prefix, what `make install` installs: the shared library, the command, and in lib/ebb the libraries
that both need and that a system may not have. The run path of both leads there. A source archive holds the package and, below native, the C
sources; a wheel is built of either by CMake, a C compiler and what tools/setup.sh names.

EBB_BUILD names a build folder to install from instead of building anew.
"""
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
NATIVE = HERE / "native" if (HERE / "native").exists() else HERE.parent
SCRIPTS = "[console_scripts]\nebb = ebb.command:main\n"
# What every Linux with glibc has.
OF_THE_SYSTEM = re.compile(r"^(linux-vdso|ld-linux|libc|libm|libdl|libpthread|librt)\b")
TARGETS = ["ebb_command", "ebb_static", "ebb_shared", "ebb_manuals"]  # all that is installed
# Files of a source archive that CMake needs.
SOURCES = ["CMakeLists.txt", "Makefile", "LICENSE", "README.md", "ebb.pc.in", "ebb-static.pc.in", "ebbConfig.cmake.in", "cmake", "include", "plugin", "src", "tools/setup.sh"]


def version():
    return re.search(r'#define EBB_VERSION "([^"]+)"', (NATIVE / "include/ebb.h").read_text()).group(1)


def metadata():
    return (f"Metadata-Version: 2.1\nName: ebb\nVersion: {version()}\nSummary: Trains recurrent, translation and convolutional models in the "
            "memory you have\nLicense: Apache-2.0\nRequires-Python: >=3.9\n\nSee docs/python.md.\n")


# ---- the native part ----

def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, **options).stdout.decode()


def built(work):
    """A build folder with the command and the library."""
    if os.environ.get("EBB_BUILD"):
        return Path(os.environ["EBB_BUILD"]).resolve()
    build = work / "build"
    run("cmake", "-S", NATIVE, "-B", build, "-G", "Ninja", "-DEBB_TESTS=OFF", "-DEBB_MPI=OFF")
    run("ninja", "-C", build, *TARGETS)
    return build


def needed(path):
    """Libraries that a file is loaded with, by name: where they are found."""
    return {name: where for name, where in re.findall(r"^\s*(\S+) => (\S+) \(", run("ldd", path), re.M)}


def install(work):
    """The prefix that a wheel holds."""
    whole, prefix = work / "whole", work / "prefix"
    run("cmake", "--install", built(work), "--prefix", whole)
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib/ebb").mkdir(parents=True)
    shutil.copy2(whole / "bin/ebb", prefix / "bin/ebb")
    shutil.copy2(whole / "lib/libebb.so.0", prefix / "lib/libebb.so.0")
    for part in (prefix / "bin/ebb", prefix / "lib/libebb.so.0"):
        for name, where in needed(part).items():
            if not OF_THE_SYSTEM.match(name) and not (prefix / "lib/ebb" / name).exists():
                shutil.copy2(os.path.realpath(where), prefix / "lib/ebb" / name)
        run("strip", "--strip-unneeded", part)
    return prefix


def tag(prefix):
    """The oldest glibc that has all it asks for: manylinux_2_34_x86_64."""
    versions = set()
    for path in prefix.rglob("*"):
        if path.is_file():
            versions |= {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_(2\.\d+)", run("objdump", "-T", path))}
    machine = sysconfig.get_platform().split("-")[-1].replace("-", "_")
    return "py3-none-manylinux_%d_%d_%s" % (*max(versions), machine)


# ---- archives ----

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """What pip asks for first; without this it would build a wheel to know it, and then another."""
    info = Path(metadata_directory) / f"ebb-{version()}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(metadata())
    (info / "entry_points.txt").write_text(SCRIPTS)
    return info.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        prefix = install(Path(folder))
        kind, info = tag(prefix), f"ebb-{version()}.dist-info"
        name = f"ebb-{version()}-{kind}.whl"
        files = {f"ebb/{path.name}": path for path in sorted((HERE / "ebb").iterdir()) if path.suffix in (".py", ".typed")}
        files.update({f"ebb/_prefix/{path.relative_to(prefix)}": path for path in sorted(prefix.rglob("*")) if path.is_file()})
        texts = {f"{info}/METADATA": metadata(), f"{info}/entry_points.txt": SCRIPTS,
                 f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: build_ebb\nRoot-Is-Purelib: false\nTag: {kind}\n",
                 f"{info}/LICENSE": (NATIVE / "LICENSE").read_text()}
        records = []
        with zipfile.ZipFile(Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
            for target, data, mode in [(target, path.read_bytes(), path.stat().st_mode) for target, path in files.items()] + \
                                      [(target, text.encode(), 0o644) for target, text in texts.items()]:
                put(archive, target, data, mode)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                records.append(f"{target},sha256={digest},{len(data)}\n")
            put(archive, f"{info}/RECORD", ("".join(records) + f"{info}/RECORD,,\n").encode(), 0o644)
    return name


def put(archive, target, data, mode):
    """The same bytes whenever it is built."""
    entry = zipfile.ZipInfo(target, (2020, 1, 1, 0, 0, 0))
    entry.external_attr = (0o100755 if mode & 0o100 else 0o100644) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, data)


def build_sdist(sdist_directory, config_settings=None):
    base = f"ebb-{version()}"
    with tempfile.TemporaryDirectory() as folder, tarfile.open(Path(sdist_directory) / f"{base}.tar.gz", "w:gz") as archive:
        info = Path(folder) / "PKG-INFO"
        info.write_text(metadata())
        archive.add(info, f"{base}/PKG-INFO")
        for name in ("pyproject.toml", "backend/build_ebb.py", "ebb"):
            archive.add(HERE / name, f"{base}/{name}", filter=without_made)
        for name in SOURCES:
            archive.add(NATIVE / name, f"{base}/native/{name}", filter=without_made)
    return f"{base}.tar.gz"


def without_made(entry):
    return None if "__pycache__" in entry.name or "/_prefix" in entry.name else entry


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []
