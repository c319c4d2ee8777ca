#!/usr/bin/env bash
# run.sh EBB - what `make bench` shows: speed and bytes of language-model training, one row a model.
# Figures are medians over the timed steps of one run; compare rows of one run only.
set -euo pipefail
ebb=${1:?usage: bench/run.sh PATH_OF_EBB}
field() { python3 -c 'import json,sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }
mib() { python3 -c 'import sys; print(f"{int(sys.argv[1]) / 2**20:.1f}")' "$1"; }
row() {
    local name=$1 bench plan
    shift
    bench=$("$ebb" bench lm "$@" --steps 8 --json)
    plan=$("$ebb" plan lm "$@" --json)
    [ "$(field planned_peak_bytes <<<"$bench")" = "$(field measured_peak_bytes <<<"$bench")" ] ||
        { echo "bench: planned and measured bytes differ: $name" >&2; exit 1; }
    printf '| %s | %.0f | %s | %s | %s | %s | %s |\n' "$name" \
        "$(field words_per_second <<<"$bench")" \
        "$(mib "$(field measured_peak_bytes <<<"$bench")")" \
        "$(mib "$(field vm_hwm_bytes <<<"$bench")")" \
        "$(mib "$(field least_bytes <<<"$plan")")" \
        "$(mib "$(field keep_all_bytes <<<"$plan")")" \
        "$(field seconds_per_step <<<"$plan" | cut -c1-6) / $(field seconds_per_step <<<"$bench" | cut -c1-6)"
}
echo '| model | words/s | plan = measured, MiB | VmHWM, MiB | least, MiB | keep-all, MiB | s/step predicted / measured |'
echo '|---|---|---|---|---|---|---|'
row 'LSTM 2x200, B 20, T 35' --hidden 200
row 'LSTM 2x650, B 20, T 35, dropout 0.5' --hidden 650 --dropout 0.5
row 'GRU 2x650, B 20, T 35' --hidden 650 --cell gru
row 'RNN 2x650, B 20, T 35' --hidden 650 --cell rnn
row 'LSTM 2x512, B 128, T 50' --hidden 512 --batch 128 --bptt 50
row 'LSTM 2x512, B 64, T 35, Adam' --hidden 512 --batch 64 --optimizer adam
row 'LSTM 1x256, B 4, T 100' --layers 1 --hidden 256 --batch 4 --bptt 100
