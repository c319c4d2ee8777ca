#!/bin/bash
# Trains a convolutional net to tell images apart, in about half of the memory that a step takes when
# everything is kept; then shows it images it has never seen, and writes a page about it.
# Usage: tools/demo_cnn.sh EBB [FOLDER]    (EBB: path of the command)
#
# The images are Fashion-MNIST, of FOLDER or where Debian's dataset-fashion-mnist is installed;
# otherwise pictures of shapes are drawn, which needs nothing but Python. Works in the folder demo-cnn,
# which it replaces. One to two minutes on 2 cores; a machine too slow to finish in LIMIT seconds is
# stopped politely, which keeps what was learned so far.
set -eu
ebb=$(realpath "${1:?usage: tools/demo_cnn.sh EBB [FOLDER]}")
tools=$(realpath "$(dirname "$0")")
fashion=${2:-/usr/share/datasets/fashion-mnist}
if [ -e "$fashion" ]; then
    fashion=$(realpath "$fashion")
elif [ $# -gt 1 ]; then
    echo "demo: there is no $fashion" >&2
    exit 2
fi
cd "$tools/.."
. tools/demo_help.sh

rm -rf demo-cnn
mkdir demo-cnn
cd demo-cnn

# A layer a line (docs/nets.md). Channels and size of the image, and how many classes there are.
net() {
    cat <<END
input $1
conv 24 3 pad 1; relu
maxpool 2
conv 48 3 pad 1; relu
maxpool 2
conv 96 3 pad 1; relu
flatten
dropout 0.25
fc $2
END
}

if [ -e "$fashion" ]; then
    say "Images of clothes, 28 x 28 pixels: Fashion-MNIST"
    [ $# -lt 2 ] || echo "  (from $fashion)"
    net '1 28 28' 10 >net.txt
    data=(--train "$fashion" --valid "$fashion" --batch 128 --lr 0.05 --epochs 3)
    test=$fashion
else
    say "Pictures of shapes, of many sizes: no Fashion-MNIST here, so they are drawn"
    python3 "$tools/draw_shapes.py" shapes --images 400 --least 28 --most 36 --seed 1
    python3 "$tools/draw_shapes.py" test --images 50 --least 28 --most 36 --seed 2
    net '3 32 32' 8 >net.txt
    data=(--train shapes --batch 64 --lr 0.03 --flip --epochs 12)
    test=test
    echo "  $(find shapes -name '*.png' | wc -l) to learn from, $(find test -name '*.png' | wc -l) others held out:" shapes/*
fi
echo
sed 's/^/  /' net.txt

model=(cnn --net net.txt "${data[@]}" --momentum 0.9 --schedule cosine)
measure "${model[@]}"
budget=$((all / 2 > least ? all / 2 : least))

say "Training: a step that keeps everything takes $((all >> 10)) KiB; this one gets $((budget >> 10)) KiB"
train "${model[@]}" --memory "$budget" --log-every 100

say "Images it has not seen"
"$ebb" eval cnn run "$test" --memory "$budget" --csv confusion.csv
if [ "$test" = test ]; then
    say "What some of them show (ebb predict)"
    "$ebb" predict run test/{bar,disc,star,two}/000[01].png --top 3
fi

"$ebb" report run report.html
say "All of it, with pictures, on one page: demo-cnn/report.html"
echo "Try: $1 train cnn --train FOLDER --net resnet18 --size 64 --memory 256M --out photos   (a folder of photographs for each class)
     $1 predict photos IMAGE.jpg"
