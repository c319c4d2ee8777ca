# What the demos share; sourced, with $ebb set.
LIMIT=120 # seconds of training

say() { printf '\n== %s\n' "$*"; }
number() { sed -nE "s/.*\"$1\": ([0-9]+).*/\1/p"; }

# measure OPTIONS OF TRAIN...: what a step takes that keeps everything (all), and the least (least).
measure() {
    "$ebb" plan "$@" --json >plan.json
    all=$(number keep_all_bytes <plan.json)
    least=$(number least_bytes <plan.json)
    rm plan.json
}

# train OPTIONS...: into the folder run. A machine that is too slow is stopped politely, which keeps what
# was learned so far; where that is nothing, the demo ends.
train() {
    local code=0
    timeout --preserve-status --signal=TERM "$LIMIT" "$ebb" train "$@" --out run || code=$?
    if [ "$code" -eq 75 ]; then
        echo "(this machine is slow: the demo goes on with what was learned so far)"
    elif [ "$code" -ne 0 ]; then
        exit "$code"
    fi
    if [ ! -e run/best.safetensors ]; then
        echo "(not one epoch was done)"
        exit 0
    fi
}
