#!/bin/bash
# Makes a text, trains a character-level LSTM on it inside a fixed budget, lets it write.
# Usage: tools/demo.sh EBB    (EBB: path of the command)
#
# Works in the folder demo, which it replaces. About a minute on 2 cores; a machine too slow to
# finish in LIMIT seconds is stopped politely, which keeps what was learned so far.
set -eu
ebb=$(realpath "${1:?usage: tools/demo.sh EBB}")
cd "$(dirname "$0")/.."
LIMIT=110

say() { printf '\n== %s\n' "$*"; }

rm -rf demo
mkdir demo
cd demo

say "A text: sentences of a toy grammar"
"$ebb" data grammar train.txt --lines 5000 --seed 1
"$ebb" data grammar valid.txt --lines 500 --seed 2
head -n 3 train.txt
echo "... $(wc -c <train.txt) characters"

say "Training on its characters in at most 16 MiB: first the plan, then progress"
code=0
timeout --preserve-status --signal=TERM "$LIMIT" "$ebb" train lm \
    --train train.txt --valid valid.txt --tokens char --vocab all --hidden 128 --layers 1 \
    --batch 32 --bptt 50 --optimizer adam --lr 0.004 --epochs 15 --memory 16M --out run || code=$?
if [ "$code" -eq 75 ]; then
    echo "(this machine is slow: the demo goes on with what was learned so far)"
elif [ "$code" -ne 0 ]; then
    exit "$code"
fi

say "Validation perplexity after each epoch: how many characters it hesitates between"
sed -nE 's/.*"epoch":([0-9]+).*"valid_perplexity":([0-9.]+).*/\1 \2/p' run/metrics.jsonl | awk '{
    bar = sprintf("%*s", 12 * ($2 - 1), ""); gsub(" ", "#", bar); printf "epoch %2d  %6.3f  %s\n", $1, $2, bar }'
if [ ! -e run/best.safetensors ]; then
    echo "(not one epoch was done)"
    exit 0
fi

say "What it writes, one character at a time"
"$ebb" generate run --length 400 --temperature 0.7 --seed 7

say "Try: $1 generate demo/run --temperature 1.2 --seed 3"
