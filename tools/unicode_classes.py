#!/usr/bin/env python3
"""Writes src/data/unicode.def: of which class every code point is, letter (\\p{L}), number (\\p{N}), white space or other, as
runs of equal class. Needs unicodedata2 16.0.0: Unicode 16 is what the tokenizers that use these classes have.

Usage: tools/unicode_classes.py > src/data/unicode.def"""
import sys

import unicodedata2

SPACES = {*range(0x09, 0x0e), 0x20, 0x85, 0xa0, 0x1680, *range(0x2000, 0x200b), 0x2028, 0x2029, 0x202f, 0x205f, 0x3000}
A_LINE = 8


def class_of(point):
    if point in SPACES:
        return "S"
    category = unicodedata2.category(chr(point))[0]
    return category if category in "LN" else "O"


def main():
    if unicodedata2.unidata_version != "16.0.0":
        sys.exit(f"unicode_classes.py: needs Unicode 16.0.0, this is {unicodedata2.unidata_version}")
    runs, last = [], None
    for point in range(0x110000):
        if (found := class_of(point)) != last:
            runs.append(f"{found}(0x{point:x})")
            last = found
    print("/* Where runs of code points of a class begin, of Unicode 16.0.0. Written by tools/unicode_classes.py. */")
    for at in range(0, len(runs), A_LINE):
        print(", ".join(runs[at:at + A_LINE]) + ",")


main()
