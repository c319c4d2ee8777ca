#!/bin/bash
# Checks for what ebb needs and, as root on Debian or Ubuntu, installs what is missing.
# Usage: tools/setup.sh build|test|fuzz|mpi|device|python|coverage|lint|deb
# Elsewhere, or without root, names the missing packages and exits 1. Silent when all is there.
set -u

cc=${CC:-gcc}

has_tool() { command -v "$1" >/dev/null 2>&1; }
has_header() { echo "#include <$1>" | "$cc" -E - >/dev/null 2>&1; }
has_fuzzer() {
    echo 'int LLVMFuzzerTestOneInput(const char *d, long n) { return d != 0 && n < 0; }' |
        clang -fsanitize=fuzzer,address,undefined -x c - -o /dev/null >/dev/null 2>&1
}

# Of the python3 that is called, or of the system's, which has Debian's packages.
has_numpy() { python3 -c 'import numpy' 2>/dev/null || /usr/bin/python3 -c 'import numpy' 2>/dev/null; }

# package, kind of probe, what to probe for
needs_of() {
    cat <<'LIST'
gcc tool gcc
libc6-dev header stdio.h
cmake tool cmake
ninja-build tool ninja
pkg-config tool pkg-config
librandom123-dev header Random123/philox.h
libjansson-dev header jansson.h
libxxhash-dev header xxhash.h
libcmocka-dev module cmocka
zlib1g-dev header zlib.h
libpng-dev header png.h
libjpeg-dev module libjpeg
LIST
    # On other processors ebb is built without libxsmm.
    if [ "$(uname -m)" = x86_64 ]; then
        echo "libxsmm-dev header libxsmm.h"
    fi
    if [ "$1" = test ] || [ "$1" = coverage ]; then
        echo "g++ tool g++"
        echo "python3 tool python3"
        [ "$1" = test ] || echo "gcovr tool gcovr"
    elif [ "$1" = fuzz ]; then
        echo "python3 tool python3"
        echo "clang tool clang"
        echo "libclang-rt-dev fuzzer -"
    elif [ "$1" = mpi ]; then
        echo "libopenmpi-dev module ompi-c"
        echo "openmpi-bin tool mpirun"
    elif [ "$1" = device ]; then
        # OpenCL on the CPU, and a simulator that finds races. Programs need none of it to be built.
        echo "ocl-icd-libopencl1 library libOpenCL.so.1"
        echo "pocl-opencl-icd file /etc/OpenCL/vendors/pocl.icd"
        echo "clinfo tool clinfo"
        echo "oclgrind tool oclgrind"
    elif [ "$1" = python ]; then
        echo "python3-numpy numpy -"
        echo "mypy tool mypy"
    elif [ "$1" = deb ]; then
        echo "dpkg-dev tool dpkg-shlibdeps"
        echo "file tool file"
    elif [ "$1" = lint ]; then
        echo "python3 tool python3"
        echo "clang-format tool clang-format"
        echo "clang-tidy tool clang-tidy"
        echo "cppcheck tool cppcheck"
    fi
}

missing_for() {
    needs_of "$1" | while read -r package kind what; do
        case $kind in
        tool) has_tool "$what" ;;
        header) has_header "$what" ;;
        module) pkg-config --exists "$what" 2>/dev/null ;;
        library) /sbin/ldconfig -p 2>/dev/null | grep -qF "$what" ;;
        file) [ -e "$what" ] ;;
        fuzzer) has_fuzzer ;;
        numpy) has_numpy ;;
        esac || echo "$package"
    done | tr '\n' ' '
}

purpose=${1:-build}
case $purpose in
build | test | fuzz | mpi | device | python | coverage | lint | deb) ;;
*)
    echo "usage: tools/setup.sh build|test|fuzz|mpi|device|python|coverage|lint|deb" >&2
    exit 2
    ;;
esac

missing=$(missing_for "$purpose")
[ -z "$missing" ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! has_tool apt-get; then
    echo "ebb needs packages that are not here: $missing" >&2
    echo "On Debian or Ubuntu: sudo apt-get install --no-install-recommends $missing" >&2
    echo "Elsewhere, install what provides the same tools and headers." >&2
    exit 1
fi

echo "installing: $missing" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086
if ! { apt-get update && apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "apt-get failed (above); run: apt-get install --no-install-recommends $missing" >&2
    exit 1
fi
missing=$(missing_for "$purpose")
if [ -n "$missing" ]; then
    echo "still missing after installing: $missing" >&2
    exit 1
fi
