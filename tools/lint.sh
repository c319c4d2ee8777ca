#!/bin/bash
# Format, static analysis and the project's own rules. Shows everything, then fails if any did.
# Usage: tools/lint.sh BUILD    (BUILD: a configured build folder)
#        tools/lint.sh --format (rewrites the sources instead)
set -u
cd "$(dirname "$0")/.." || exit 1

mapfile -t sources < <(find src plugin include tests bench examples -name '*.[ch]' 2>/dev/null | sort)
if [ "${1:-}" = --format ]; then
    exec clang-format -i "${sources[@]}"
fi
build=${1:?usage: tools/lint.sh BUILD | --format}

failed=""
step() {
    local name=$1
    shift
    echo "== $name"
    "$@" || failed="$failed $name"
}

analyse() {
    cppcheck --quiet --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
        --std=c11 --language=c -j "$(nproc)" -DEBB_API= -D__x86_64__ -Isrc -Iinclude \
        --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches \
        --suppress=unknownMacro --template='{file}:{line}: {id}: {message}' src plugin
}

tidy() {
    # Without MPI the plugin is not built, so its headers are not known.
    { find src -name '*.c' && grep -oE 'plugin/[a-z_/]+\.c' "$build/compile_commands.json" | sort -u; } | tr '\n' '\0' |
        xargs -0 -r -n 4 -P "$(nproc)" clang-tidy -p "$build" --quiet 2>/dev/null
}

step clang-format clang-format --dry-run -Werror "${sources[@]}"
step cppcheck analyse
step clang-tidy tidy
step check_source python3 tools/check_source.py

if [ -n "$failed" ]; then
    echo "lint failed:$failed"
    exit 1
fi
echo "lint: clean"
