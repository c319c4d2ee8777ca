#!/usr/bin/env python3
"""Draws pictures of shapes, as photographs would be: of many sizes, in any colours, on a ground that
is not even, with noise. A folder for each shape, PNG files in it. Needs nothing but Python.

Usage: tools/draw_shapes.py FOLDER [--images N] [--seed N] [--least PX] [--most PX]
N images of each shape, of --least to --most pixels on a side.
"""
import argparse
import math
import os
import random
import struct
import zlib


def inside_polygon(corners):
    """Whether (x, y) lies in a convex polygon: on one side of all its edges."""
    edges = list(zip(corners, corners[1:] + corners[:1]))
    return lambda x, y: all((bx - ax) * (y - ay) >= (by - ay) * (x - ax) for (ax, ay), (bx, by) in edges)


def polygon(n):
    return inside_polygon([(math.cos(2 * math.pi * i / n), math.sin(2 * math.pi * i / n)) for i in range(n)])


def star(x, y):
    turn = (math.atan2(y, x) / (2 * math.pi) * 5) % 1
    return math.hypot(x, y) < 0.4 + 0.6 * abs(2 * turn - 1)


# Each in the circle of radius 1.
SHAPES = {
    "bar": lambda x, y: abs(x) < 0.95 and abs(y) < 0.22,
    "cross": lambda x, y: max(abs(x), abs(y)) < 0.9 and min(abs(x), abs(y)) < 0.26,
    "disc": lambda x, y: math.hypot(x, y) < 0.9,
    "ring": lambda x, y: 0.55 < math.hypot(x, y) < 0.95,
    "square": polygon(4),
    "star": star,
    "triangle": polygon(3),
    "two": lambda x, y: math.hypot(abs(x) - 0.55, y) < 0.38,
}


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, rows):
    """RGB, 8 bits; rows are bytes."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 6)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def colours(dice):
    """Of the ground and of the shape: dark and light, or the other way round."""
    pair = [[dice.randrange(0, 100) for _ in range(3)], [dice.randrange(140, 256) for _ in range(3)]]
    return pair if dice.random() < 0.7 else pair[::-1]


def draw(dice, shape, width, height):
    ground, ink = colours(dice)
    side = min(width, height)
    radius = side * dice.uniform(0.25, 0.45)
    x0, y0 = (dice.uniform(radius, n - radius) for n in (width, height))
    turn = dice.uniform(0, 2 * math.pi)
    cos, sin = math.cos(turn) / radius, math.sin(turn) / radius
    slope = [dice.uniform(-60, 60) / side for _ in range(2)]
    noise = dice.uniform(0, 25)
    rows = []
    for y in range(height):
        row = bytearray()
        for x in range(width):
            dx, dy = x + 0.5 - x0, y + 0.5 - y0
            colour = ink if shape(dx * cos + dy * sin, dy * cos - dx * sin) else ground
            light = slope[0] * dx + slope[1] * dy + (dice.random() - 0.5) * 2 * noise
            row += bytes(min(255, max(0, int(c + light))) for c in colour)
        rows.append(bytes(row))
    return png(width, height, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=int, default=28)
    parser.add_argument("--most", type=int, default=44)
    args = parser.parse_args()
    for name, shape in SHAPES.items():
        dice = random.Random(f"{args.seed} {name}")
        os.makedirs(os.path.join(args.folder, name), exist_ok=True)
        for i in range(args.images):
            size = [dice.randint(args.least, args.most) for _ in range(2)]
            with open(os.path.join(args.folder, name, f"{i:04}.png"), "wb") as file:
                file.write(draw(dice, shape, *size))


main()
