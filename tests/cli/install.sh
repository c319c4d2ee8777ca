#!/bin/bash
# The installed package: `cmake --install` into a folder of its own, then examples/tiny_lm.c built as
# a user would build it (pkg-config; shared, static, strict C11 with each compiler), a C++17 example,
# both by find_package, and the list of exported symbols. Needs EBB_BUILD, the build folder; tools/run_tests.sh sets it.
set -u
cd "$(dirname "$0")/../.." || exit 1

build=${EBB_BUILD:?the build folder}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

# check NAME COMMAND...: counts; shows what the command said if it fails.
check() {
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "not ok: $name: $*"
        tail -n 20 "$work/log"
    fi
}

sanitize=()
case ${EBB_SANITIZE:-} in
address) sanitize=(-fsanitize=address,undefined) ;;
thread) sanitize=(-fsanitize=thread) ;;
esac
[ -z "${EBB_COVERAGE:-}" ] || sanitize+=(--coverage) # the static library counts its lines
warn=(-Wall -Wextra -Wconversion -pedantic -Werror)
strict=("${warn[@]}" "${sanitize[@]}")

# flags FOLDER OPTIONS...: what pkg-config says of the package installed there.
flags() {
    local folder=$1
    shift
    PKG_CONFIG_PATH=$folder/lib/pkgconfig pkg-config "$@"
}

# The loss of the last line is below a tenth of the first, and the plan within its budget.
learns() {
    awk '/^plan:/ { bytes = $2 }
         /^step/ { if (!first) first = $NF; last = $NF }
         END { exit !(bytes > 0 && bytes <= 1048576 && first > 0 && last > 0 && last < first / 10) }' "$1"
}

check "install" cmake --install "$build" --prefix "$work/shared"
if [ -f "$build/ebb_mpi.so" ]; then
    check "plugin for MPI" test -f "$work/shared/lib/ebb/ebb_mpi.so"
    check "the command needs no MPI" sh -c "! ldd '$work/shared/bin/ebb' | grep libmpi"
fi
check "move" cp -r "$work/shared" "$work/static" # the package may be moved

check "version" test "$(flags "$work/shared" --modversion ebb)" = \
    "$(sed -nE 's/^#define EBB_VERSION "(.*)"$/\1/p' include/ebb.h)"
check "example has at most 60 lines" test "$(wc -l <examples/tiny_lm.c)" -le 60

for kind in shared static; do
    read -ra found < <(flags "$work/$kind" --cflags --libs "ebb$([ $kind = static ] && echo -static)")
    check "$kind: compile" cc -std=c11 "${strict[@]}" examples/tiny_lm.c -o "$work/tiny_$kind" "${found[@]}"
    check "$kind: run" env LD_LIBRARY_PATH="$work/shared/lib" "$work/tiny_$kind"
    cp "$work/log" "$work/$kind.out"
    check "$kind: learns" learns "$work/$kind.out"
done
for name in regression tagger processes; do
    read -ra found < <(flags "$work/shared" --cflags --libs ebb)
    check "$name: compile" cc -std=c11 "${strict[@]}" "examples/$name.c" -o "$work/$name" "${found[@]}" -lm
    check "$name: run" sh -c "cd '$work' && LD_LIBRARY_PATH='$work/shared/lib' ./$name"
    cp "$work/log" "$work/$name.out"
    check "$name: learns" awk '/^step/ { if (!first) first = $NF; last = $NF }
        END { exit !(first > 0 && last > 0 && last < first / 10) }' "$work/$name.out"
done
if [ -f "$work/shared/lib/ebb/ebb_mpi.so" ] && command -v mpirun >/dev/null && [ "${EBB_SANITIZE:-}" != thread ]; then
    cp "$work/processes.safetensors" "$work/alone.safetensors"
    check "processes: two" sh -c "cd '$work' && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 \
        LD_LIBRARY_PATH='$work/shared/lib' mpirun --oversubscribe --bind-to none -np 2 ./processes | grep 'process 1 of 2'"
    check "processes: the same weights" cmp "$work/processes.safetensors" "$work/alone.safetensors"
fi
read -ra found < <(flags "$work/shared" --cflags --libs ebb)
check "translate: compile" cc -std=c11 "${strict[@]}" examples/translate.c -o "$work/translate" "${found[@]}"
check "translate: a model" sh -c "cd '$work' && shared/bin/ebb data dates t.src t.tgt --lines 300 --quiet &&
    shared/bin/ebb train nmt --train t.src t.tgt --hidden 8 --steps 20 --threads 1 --out run --quiet"
check "translate: run" sh -c "cd '$work' && LD_LIBRARY_PATH=shared/lib ./translate run <t.src >translated"
check "translate: what the command says" sh -c "cd '$work' && shared/bin/ebb decode run --memory 64M <t.src | cmp - translated"
check "shared and static say the same" cmp "$work/shared.out" "$work/static.out"
check "static needs no libebb.so" sh -c "! ldd '$work/tiny_static' | grep libebb"

read -ra found < <(flags "$work/shared" --cflags --libs ebb)
check "C++17: compile" c++ -std=c++17 "${strict[@]}" examples/relu.cc -o "$work/relu" "${found[@]}"
check "C++17: run" env LD_LIBRARY_PATH="$work/shared/lib" "$work/relu"

# find_package(ebb), of a prefix that was moved; sanitizers would have to be asked for.
if [ ${#sanitize[@]} -eq 0 ]; then
    mkdir "$work/user"
    cp examples/relu.cc examples/tiny_lm.c "$work/user"
    cat >"$work/user/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES C CXX)
find_package(ebb 0 REQUIRED)
add_executable(relu relu.cc)
target_link_libraries(relu ebb::ebb)
add_executable(tiny tiny_lm.c)
target_link_libraries(tiny ebb::static)
END
    check "CMake: configure" cmake -S "$work/user" -B "$work/user/build" -DCMAKE_PREFIX_PATH="$work/static"
    check "CMake: build" cmake --build "$work/user/build"
    check "CMake: shared" "$work/user/build/relu"
    check "CMake: static" "$work/user/build/tiny"
fi

echo '#include <ebb.h>' >"$work/header.c"
for compiler in gcc clang; do
    command -v $compiler >/dev/null || continue
    check "header: $compiler, C11" $compiler -std=c11 "${warn[@]}" -Wshadow -Wundef -Iinclude -fsyntax-only "$work/header.c"
done

# Nothing is exported but what the header declares.
nm -D --defined-only "$work/shared/lib/libebb.so" | awk '$2 ~ /^[TDBRVW]$/ { print $3 }' |
    grep -vE '^(__asan|__ubsan|__odr_asan|__tsan|_init$|_fini$)' | sort >"$work/exported"
grep -oE '\bebb_[a-z0-9_]+\(' include/ebb.h | tr -d '(' | sort -u >"$work/declared"
check "exports are declared" sh -c "test -s '$work/exported' && ! comm -23 '$work/exported' '$work/declared' | grep ."
check "what is declared is exported" sh -c "! grep -E '^EBB_API' include/ebb.h | grep -oE 'ebb_[a-z0-9_]+\(' |
    tr -d '(' | sort -u | comm -23 - '$work/exported' | grep ."

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
