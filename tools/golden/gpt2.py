#!/usr/bin/env python3
"""Writes tests/golden/gpt2: codes of bytes as GPT-2 has them, learnt by `tokenizers` (made with 0.23.3) from text.txt, and in ids.txt
what that makes of every line of it. The text is random, of many scripts, all kinds of white space, digits, marks and English endings;
tests/cli/test_gpt2.py makes more of it.

Usage: tools/golden/gpt2.py OUT_FOLDER"""
import random
import sys
from pathlib import Path

SCRIPTS = {"latin": (0x61, 0x7a), "latin marks": (0xc0, 0x17f), "greek": (0x391, 0x3c9), "cyrillic": (0x410, 0x44f), "hebrew": (0x5d0, 0x5ea),
           "arabic": (0x620, 0x66f), "devanagari": (0x900, 0x96f), "thai": (0xe01, 0xe5b), "georgian": (0x10d0, 0x10ff), "hangul": (0xac00, 0xac80),
           "kana": (0x3041, 0x30ff), "han": (0x4e00, 0x4e80), "math": (0x1d400, 0x1d500), "emoji": (0x1f600, 0x1f64f), "numbers": (0x2150, 0x2189)}
SPACES = [" "] * 20 + ["  ", "   ", "\t", " \t", "\u00a0", "\u3000", " \u2009", "\u0085", "\u2028", "\x0b", "\x0c ", "\x1c", ""]
MARKS = [".", ",", "!", "...", "?!", "-", "--", "'", "\"", "$", "€", "#1", "(", ")", "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "''s", "'x", "_", "\\", "<|endoftext|>", "<unk>"]


def make_lines(seed, count):
    dice = random.Random(seed)
    words = [["".join(chr(dice.randint(*script)) for _ in range(dice.randint(1, 7))) for _ in range(40)] for script in SCRIPTS.values()]
    words = [[w.replace("\u0085", "") or "x" for w in group] for group in words]
    lines = []
    for _ in range(count):
        line, group = dice.choice(["", "", "", " ", "  ", "\t"]), dice.choice(words)
        for _ in range(dice.randint(0, 12)):
            draw = dice.random()
            if draw < 0.1:
                group = dice.choice(words)
            line += str(dice.randint(0, 10 ** dice.randint(1, 6))) if draw > 0.92 else dice.choice(MARKS) if draw > 0.8 else dice.choice(group)
            line += dice.choice(SPACES)
        lines.append(line)
    return lines


def main():
    from tokenizers import ByteLevelBPETokenizer

    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    lines = make_lines(1, 300)
    (out / "text.txt").write_bytes("".join(line + "\n" for line in lines).encode())
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(lines, vocab_size=700, min_frequency=2, show_progress=False, special_tokens=["<|endoftext|>"])
    tokenizer.save_model(str(out))
    again = ByteLevelBPETokenizer(str(out / "vocab.json"), str(out / "merges.txt"))
    (out / "ids.txt").write_text("".join(" ".join(map(str, again.encode(line).ids)) + "\n" for line in lines))


if __name__ == "__main__":
    main()
