#!/bin/bash
# Runs every test program and script of a build folder, two at a time.
# Usage: tools/run_tests.sh BUILD [NAME]    (NAME: only those whose path contains it)
#
# A cmocka program counts its TAP lines; a script counts one, or what its last line
# `N passed, N failed` says; exit code 77 means skipped, the last line being the reason. A program
# that crashes, overruns TEST_TIMEOUT seconds or stops before its plan is done has failed.
# tests/cli/lib*.sh are not tests but helpers that others source.
# The last line is `N passed, N failed`; the exit code is 1 if anything failed.
set -u
shopt -s extglob globstar nullglob
cd "$(dirname "$0")/.." || exit 1

build=$(realpath "$1") || exit 1
filter=${2:-}
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

export results EBB_BUILD=$build EBB=$build/ebb EBB_SANITIZE=${EBB_SANITIZE:-}
export TEST_TIMEOUT=${TEST_TIMEOUT:-${EBB_SANITIZE:+1200}}
export TEST_TIMEOUT=${TEST_TIMEOUT:-280}
export CMOCKA_MESSAGE_OUTPUT=TAP
export EBB_TUNE=off # the same plans on every machine, and nothing written to anybody's home
export ASAN_OPTIONS=detect_leaks=1:halt_on_error=1:allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1${TSAN_OPTIONS:+:$TSAN_OPTIONS}

command_for() {
    case $1 in
    *.sh) echo "bash $1" ;;
    *.py) echo "python3 $1" ;;
    *) echo "$1" ;;
    esac
}

# Sets passed, failed, skipped from a program's output and exit code.
count() {
    local log=$1 code=$2 planned
    # cmocka writes a skipped test as `not ok N # SKIP name`.
    skipped=$(grep -cE '^(not )?ok [0-9]+ # SKIP' "$log")
    passed=$(grep -E '^ok ' "$log" | grep -cvE '^ok [0-9]+ # SKIP')
    failed=$(grep -E '^not ok ' "$log" | grep -cvE '^not ok [0-9]+ # SKIP')
    planned=$(sed -nE 's/^1\.\.([0-9]+)$/\1/p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    if [ "$planned" -gt 0 ]; then
        if [ $((passed + failed + skipped)) -lt "$planned" ] || { [ "$code" -ne 0 ] && [ "$failed" -eq 0 ]; }; then
            failed=$((failed + 1))
        fi
        return
    fi
    read -r passed failed < <(tail -n 1 "$log" | sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p')
    if [ -n "${passed:-}" ]; then
        [ "$code" -ne 0 ] && [ "$failed" -eq 0 ] && failed=1
    else
        passed=0 failed=0
        case $code in
        0) passed=1 ;;
        77) skipped=1 ;;
        *) failed=1 ;;
        esac
    fi
    return 0
}

run_one() {
    local program=$1 label log code seconds=$SECONDS passed failed skipped
    label=${program#"$EBB_BUILD"/}
    log=$results/${label//\//_}
    mkdir "$log.dir"
    # shellcheck disable=SC2046
    TMPDIR=$log.dir timeout -k 10 "$TEST_TIMEOUT" $(command_for "$program") >"$log" 2>&1 </dev/null
    code=$?
    rm -rf "$log.dir"
    count "$log" "$code"
    {
        printf '%-44s %4d passed, %d failed (%d s)\n' "$label" "$passed" "$failed" $((SECONDS - seconds))
        if [ "$skipped" -gt 0 ]; then
            echo "SKIP $label: $skipped skipped: $(grep -iE 'skip' "$log" | tail -n 3 | tr '\n' ';')"
        fi
        if [ "$failed" -gt 0 ]; then
            echo "---- $label: exit code $code$([ "$code" -eq 124 ] && echo ' (out of time)')"
            tail -n 200 "$log"
            echo "----"
        fi
    } >"$log.report"
    cat "$log.report"
    echo "$passed $failed $skipped" >"$log.counts"
}
export -f run_one count command_for

for program in "$build"/tests/*/test_* tests/cli/!(lib*).sh tests/**/test_*.py; do
    [[ -z $filter || $program == *"$filter"* ]] || continue
    # Build folders keep programs whose source is gone.
    if [[ $program == "$build"/* ]] && [ ! -f "${program#"$build"/}.c" ]; then
        continue
    fi
    printf '%s\0' "$program"
done | xargs -0 -r -n 1 -P 2 bash -c 'run_one "$1"' run_one

read -r passed failed skipped < <(cat "$results"/*.counts /dev/null |
    awk '{ p += $1; f += $2; s += $3 } END { print p + 0, f + 0, s + 0 }')
[ "$skipped" -gt 0 ] && echo "SKIP: $skipped test(s) were skipped, reasons above"
if [ $((passed + failed)) -eq 0 ]; then
    echo "no test was run"
    failed=1
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
