#!/bin/bash
# Trains a model with attention to read dates, in less than half of the memory that a step takes when
# everything is kept; then lets it translate dates it has never seen, and writes a page about it.
# Usage: tools/demo.sh EBB    (EBB: path of the command)
#
# Works in the folder demo, which it replaces. About a minute on 2 cores; a machine too slow to
# finish in LIMIT seconds is stopped politely, which keeps what was learned so far.
set -eu
ebb=$(realpath "${1:?usage: tools/demo.sh EBB}")
cd "$(dirname "$0")/.."
. tools/demo_help.sh
side_by_side() { paste -d '\t' "$@" | awk -F '\t' '{ printf "  %-50s %s\n", $1, $2 }'; }

rm -rf demo
mkdir demo
cd demo

say "A translation task: dates as people write them, and as ISO 8601 does"
"$ebb" data dates train.src train.tgt --lines 30000 --seed 1
"$ebb" data dates valid.src valid.tgt --lines 500 --seed 2
"$ebb" data dates other.src other.tgt --lines 2300 --seed 3
# Held out: no line of these was seen in training.
paste -d '\t' other.src other.tgt |
    awk -F '\t' 'NR == FNR { seen[$0]; next } !($1 in seen)' train.src - | head -n 2000 >held.tsv
cut -f 1 held.tsv >test.src
cut -f 2 held.tsv >test.tgt
rm other.src other.tgt held.tsv
side_by_side <(head -n 6 train.src) <(head -n 6 train.tgt)
echo "  ... $(wc -l <train.src) lines to learn from, $(wc -l <test.src) others held out"

model=(nmt --train train.src train.tgt --valid valid.src valid.tgt --vocab all --hidden 128
    --embed 64 --batch 512 --lr 0.004 --epochs 8 --samples 1)
measure "${model[@]}"
budget=$((all * 45 / 100 > least ? all * 45 / 100 : least))

say "Training: a step that keeps everything takes $((all >> 20)) MiB; this one gets $((budget >> 20)) MiB"
train "${model[@]}" --memory "$budget" --log-every 20

say "Held-out lines, translated"
"$ebb" decode run --memory "$budget" --attention-svg attention.svg <test.src >test.hyp
side_by_side <(head -n 6 test.src) <(head -n 6 test.hyp)
paste -d '\t' test.hyp test.tgt | awk -F '\t' '{ right += $1 == $2 }
    END { printf "  %d of %d lines are right to the last token: %.2f%%\n", right, NR, 100 * right / NR }'

say "Dates of your own (ebb decode answers line by line)"
printf '%s\n' 'the twentieth of july , nineteen sixty-nine' 'on thursday , the ninth of november 1989' \
    'feb . 29 , 2024' '12 / 31 / 99' "new year's eve , two thousand and thirty" >own.src
side_by_side own.src <("$ebb" decode run --memory "$budget" <own.src)

"$ebb" report run report.html
say "All of it, with pictures, on one page: demo/report.html"
echo "Try: echo 'october the 3rd , 1990' | $1 decode demo/run
     $1 data grammar text.txt && $1 train lm --train text.txt --tokens char --out lm && $1 generate lm"
