#!/bin/bash
# Trains the same language models with ebb and with PyTorch and compares validation perplexity.
# Usage: bench/perplexity.sh [TRAIN VALID [OPTION...]]    (texts; default ../shared/data/wikitext2)
#
# OPTIONs go to both sides and override those below. From the environment: EBB (default build/ebb),
# PEER_PYTHON (default build/peers/bin/python, made by bench/peers/setup.sh), CELLS (lstm gru).
# PyTorch draws the starting weights and writes them; ebb starts from that file (--init), and once more
# from its own draw. Without dropout the first pair leaves nothing to chance.
# Prints a table; exit code 1 if ebb's perplexity from the same start is more than 3% above PyTorch's
# for any cell (other draws differ by more than that among themselves),
# 77 if the texts, the command or PyTorch are not there.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)

data=$root/../shared/data/wikitext2
train=${1:-$data/test.txt}
valid=${2:-$data/valid.txt}
shift $(($# < 2 ? $# : 2))
ebb=${EBB:-$root/build/ebb}
python=${PEER_PYTHON:-$root/build/peers/bin/python}
options=(--layers 2 --hidden 200 --vocab 10000 --batch 20 --bptt 35 --dropout 0
    --lr 1 --clip 5 --epochs 3 --threads 2 --seed 1 "$@")

skip() {
    echo "SKIPPED perplexity.sh: $1" >&2
    exit 77
}
for text in "$train" "$valid"; do
    [ -r "$text" ] || skip "no text $text; name the training and validation text as arguments"
done
[ -x "$ebb" ] || skip "no command $ebb; run make, or name it with EBB="
"$python" -c 'import torch, safetensors' 2>/dev/null || skip "$python has no torch; run bench/peers/setup.sh, or name one with PEER_PYTHON="

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The numbers of valid_perplexity and the median of words_per_second, from JSON lines on stdin.
numbers() {
    "$python" -c '
import json, statistics, sys
lines = [json.loads(line) for line in sys.stdin if line.strip()]
flat = lambda key: [x for line in lines if key in line
                    for x in (line[key] if isinstance(line[key], list) else [line[key]])]
print(round(statistics.median(flat("words_per_second"))), *(f"{p:.2f}" for p in flat("valid_perplexity")))'
}

run_ebb() {
    "$ebb" train lm --train "$train" --valid "$valid" --cell "$cell" "${options[@]}" --quiet "$@"
}

code=0
printf '%-5s %-9s %7s   %s\n' cell side words/s "validation perplexity after each epoch"
for cell in ${CELLS:-lstm gru}; do
    "$python" "$root/bench/peers/lm_wikitext.py" --train "$train" --valid "$valid" --cell "$cell" \
        "${options[@]}" --save-init "$work/$cell.safetensors" >"$work/peer.json" || exit 1
    read -r -a theirs < <(numbers <"$work/peer.json")
    printf '%-5s %-9s %7s   %s\n' "$cell" pytorch "${theirs[0]}" "${theirs[*]:1}"
    for start in same own; do
        init=none
        [ $start = own ] || init=$work/$cell.safetensors
        run_ebb --init "$init" --out "$work/$cell-$start" || exit 1
        read -r -a ours < <(numbers <"$work/$cell-$start/metrics.jsonl")
        ratio=$(awk -v a="${ours[-1]}" -v b="${theirs[-1]}" 'BEGIN { printf "%.4f", a / b }')
        printf '%-5s %-9s %7s   %s   %s of PyTorch'"'"'s\n' "$cell" "ebb, $start" "${ours[0]}" "${ours[*]:1}" "$ratio"
        [ $start = own ] || awk -v r="$ratio" 'BEGIN { exit !(r <= 1.03) }' || code=1
    done
done
exit $code
