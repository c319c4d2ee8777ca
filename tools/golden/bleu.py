#!/usr/bin/env python3
"""Writes tests/golden/bleu.json: small random corpora with their scores as sacreBLEU computes them;
and tests/golden/bleu_refs.json: the same of corpora with two or three references.

Usage: tools/golden/bleu.py [FILE [FILE_OF_SEVERAL]] [CORPORA] [SEED]    (needs sacrebleu)

A corpus is two texts, line by line: words of several scripts, numbers with points and dashes,
punctuation, entities, every kind of white space, control characters; lines that are empty, end in
CR LF or have no end. The second text is the first with words changed, moved, dropped and added.
The texts are read as the sacrebleu command reads files. Read by tests/golden/test_bleu.c:

  {"sacrebleu": version, "corpora": [{
     "hyp", "refs":  the texts, whole; of one reference "ref", a text and no list
     "lines":        of each
     "13a", "none":  with that tokeniser [bleu, brevity penalty, hyp length, ref length,
                     matches of order 1 to 4, n-grams of order 1 to 4, precisions of order 1 to 4]
     "chrf":         score}, ...]}
"""
import io
import json
import random
import sys
from pathlib import Path

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

CORPORA = 1000
SPACES = ["\t", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", "\u2000", "\u2003", "\u2007",
          "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000", "  ", " \t "]
# Much like white space, but none.
ODD = ["\x00", "\x01", "\x08", "\x0e", "\x1b", "\x7f", "\x80", "\x9f", "\xad", "\u180e", "\u200b", "\u200d", "\u2060", "\ufeff", "\ufffd", "\U0010ffff"]
LETTERS = {
    "latin": "abcdefgéüßÅñœ'ABC",
    "cyrillic": "абвгдежзиклмнопЁЖ",
    "arabic": "ابتثجحخدذرزسش\u064b\u0660\u0661\u060c\u061f",
    "devanagari": "अआइकखगघचजञटणतदन\u093e\u093f\u094d\u0964\u0967",
    "cjk": "一二三四五日本語中文字。、「」かなカナ한국어",
    "emoji": "😀😃👍🏽🇩🇪\u200d❤️",
    "ascii": "".join(map(chr, range(33, 127))),
    "dots": ".,.,-0123456789a ",
}
PIECES = ["&quot;", "&amp;", "&lt;", "&gt;", "&amp;lt;", "&amp;amp;quot;", "&", "&quot", "<skipped>", "<skip<skipped>ped>", "<unk>",
          "...", ".", ",", "-", "1.5", "1,000.00", "3.", ".5", "2-3", "10-year", "a.b", "U.S.A.", "e.g.,", "--", "-1", "5-.", "0.-",
          "don't", "http://x.y/z?a=b&c=d", "(a)", "[b]", "{c}", "a/b", "50%", "$5", "#1", "@you", "x_y", "^", "~", "`a`", "|", "\\", "“q”", "…"]


def word(dice, script):
    if dice.random() < 0.25:
        return dice.choice(PIECES)
    made = "".join(dice.choice(LETTERS[script]) for _ in range(dice.randint(1, 5)))
    if dice.random() < 0.15:
        made += dice.choice(".,!?;:)-")
    return made


def line(dice, words):
    """Words and what is between them, now and then odd."""
    parts = []
    for n, w in enumerate(words):
        if n > 0:
            parts.append(" " if dice.random() < 0.9 else dice.choice(SPACES + ODD + [""]))
        parts.append(w)
    text = "".join(parts)
    if dice.random() < 0.08:
        text = dice.choice([" ", "\u3000", "\t", "\ufeff"]) + text
    if dice.random() < 0.12:
        text += dice.choice([" ", "\r", " \r", "\xa0", "\u2028", "\x1f\x85", "-", " \x00"])
    return text


def change(dice, words, vocabulary, share):
    """The reference's words as a translation might have them."""
    out = []
    for w in words:
        kind = dice.random() / share if share > 0 else 9
        if kind < 0.3:
            out.append(dice.choice(vocabulary))
        elif kind < 0.5:
            continue
        elif kind < 0.7:
            out += [w, dice.choice(vocabulary)]
        elif kind < 1:
            out.insert(dice.randint(0, len(out)), w)
        else:
            out.append(w)
    return out


def corpus(dice):
    """The texts of a corpus: translations, references."""
    script = dice.choice(list(LETTERS))
    vocabulary = [word(dice, script if dice.random() < 0.9 else dice.choice(list(LETTERS))) for _ in range(dice.randint(2, 12))]
    share = dice.choice([0, 0.1, 0.3, 0.6, 0.95])
    most = dice.choice([2, 7, 12, 18])
    hyps, refs = [], []
    for _ in range(dice.choice([1, 2, 3, 4, 6])):
        words = [dice.choice(vocabulary) for _ in range(dice.randint(0, most))]
        refs.append(line(dice, words))
        hyps.append(line(dice, change(dice, words, vocabulary, share)) if dice.random() > 0.05 else "")
    return text_of(dice, hyps), text_of(dice, refs)


def several(dice):
    """The texts of a corpus with several references: translations, a list of references."""
    script = dice.choice(list(LETTERS))
    vocabulary = [word(dice, script) for _ in range(dice.randint(2, 9))]
    share = dice.choice([0.1, 0.3, 0.6])
    most = dice.choice([2, 7, 12])
    texts = [[] for _ in range(1 + dice.randint(2, 3))]
    for _ in range(dice.choice([1, 2, 3, 4])):
        words = [dice.choice(vocabulary) for _ in range(dice.randint(0, most))]
        for lines in texts:
            lines.append(line(dice, change(dice, words, vocabulary, share)) if dice.random() > 0.05 else "")
    texts = [text_of(dice, lines) for lines in texts]
    return texts[0], texts[1:]


def text_of(dice, lines):
    """Joined by line ends; the last may have none, unless that would leave no line at all."""
    text = "".join(item + ("\r\n" if dice.random() < 0.1 else "\n") for item in lines)
    return text[:-1] if len(text) > 1 and text[-2] != "\n" and dice.random() < 0.2 else text


def lines_of(text):
    """As sacrebleu's smart_open and main() read a file."""
    with io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8", newline="\n") as file:
        return [item.rstrip() for item in file]


def bleu(hyps, refs, tokeniser):
    score = BLEU(tokenize=tokeniser).corpus_score(hyps, refs)
    return [score.score, score.bp, score.sys_len, score.ref_len, *score.counts, *score.totals, *score.precisions]


def scored(hyp, ref):
    """Of one reference, a text, or of a list of several."""
    one = isinstance(ref, str)
    hyps, refs = lines_of(hyp), [lines_of(text) for text in ([ref] if one else ref)]
    assert all(len(hyps) == len(lines) > 0 for lines in refs)
    return {"hyp": hyp, "ref" if one else "refs": ref, "lines": len(hyps), "13a": bleu(hyps, refs, "13a"), "none": bleu(hyps, refs, "none"),
            "chrf": CHRF().corpus_score(hyps, refs).score}


def write(path, count, make, dice):
    rows = [json.dumps(scored(*make(dice)), ensure_ascii=False, separators=(",", ":")) for _ in range(count)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write('{"sacrebleu":"%s","corpora":[\n%s\n]}\n' % (sacrebleu.__version__, ",\n".join(rows)))


def main():
    golden = Path(__file__).resolve().parent.parent.parent / "tests/golden"
    paths = [item for item in sys.argv[1:] if not item.isdigit()]
    numbers = [int(item) for item in sys.argv[1:] if item.isdigit()]
    count = numbers[0] if numbers else CORPORA
    seed = numbers[1] if len(numbers) > 1 else 1
    write(paths[0] if paths else golden / "bleu.json", count, corpus, random.Random(seed))
    if len(paths) != 1:
        write(paths[1] if paths else golden / "bleu_refs.json", (count + 4) // 5, several, random.Random(seed + 1))


if __name__ == "__main__":
    main()
