"""Charts as self-contained SVG text: lines over a size, time against memory, tiles. Standard library only.

Colours are those of Okabe and Ito, told apart with any colour vision; every series also has a marker
and a dash of its own. A style sheet inside the picture follows the reader's light or dark scheme.
"""
import math
from html import escape

# (light, dark, marker, dash, line width) of each kind of series
STYLES = (
    ("#0072B2", "#4DB2F0", "circle", "", 2.6),
    ("#0072B2", "#4DB2F0", "ring", "5 4", 1.6),
    ("#C24E00", "#F28E4B", "square", "", 1.8),
    ("#00805C", "#3CC79A", "triangle", "", 1.8),
    ("#A8508A", "#E39AC6", "diamond", "2 3", 1.8),
    ("#7A6A00", "#E8D83A", "square", "8 3", 1.8),
    ("#444C56", "#ADB5BD", "ring", "2 2", 1.8),
)

# Grounds of tiles, (light, dark); ink is written on them.
FILLS = (("#B3D4EA", "#1D4E70"), ("#F6CFB0", "#7A3E12"), ("#B5E0D0", "#12593F"), ("#E7CBDF", "#66345A"),
         ("#EFE6A8", "#5E5510"), ("#D3D7DC", "#454C54"), ("#CFE8F7", "#2F6F93"), ("#F3B8A8", "#8A2F1B"))

FONT = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
LEFT, RIGHT, TOP, BOTTOM = 96, 142, 92, 58
WIDTH, HEIGHT = 790, 460
LABEL_GAP = 16  # pixels between direct labels
TICK_GAP = 30  # pixels between tick labels along x


def style_sheet(dark):
    ground, ink, muted, grid = ("#0d1117", "#e6edf3", "#9aa4ae", "#30363d") if dark else ("#ffffff", "#1f2328", "#59636e", "#dde2e7")
    rules = [f".ground{{fill:{ground}}}.ink{{fill:{ink}}}.muted{{fill:{muted}}}.grid{{stroke:{grid}}}.axis{{stroke:{muted}}}"]
    for number, style in enumerate(STYLES):
        colour = style[1] if dark else style[0]
        rules.append(f".l{number}{{stroke:{colour};fill:none}}.m{number}{{fill:{colour};stroke:{ground}}}"
                     f".r{number}{{fill:{ground};stroke:{colour}}}.t{number}{{fill:{colour}}}")
    rules += [f".f{number}{{fill:{fill[1] if dark else fill[0]}}}" for number, fill in enumerate(FILLS)]
    return "".join(rules)


def picture(width, height, title, body):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>text{{{FONT}}}{style_sheet(False)}@media (prefers-color-scheme:dark){{{style_sheet(True)}}}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>', *body, "</svg>", ""])


def text(x, y, words, size=12, anchor="start", kind="ink", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" class="{kind}"{extra}>{escape(words)}</text>'


def marker(number, x, y, tip=""):
    shape = STYLES[number][2]
    kind = f'class="{"r" if shape == "ring" else "m"}{number}" stroke-width="{1.6 if shape == "ring" else 1}"'
    inner = f"<title>{escape(tip)}</title>" if tip else ""
    if shape in ("circle", "ring"):
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" {kind}>{inner}</circle>'
    corners = {"square": ((-4, -4), (4, -4), (4, 4), (-4, 4)), "triangle": ((0, -5), (5, 4), (-5, 4)),
               "diamond": ((0, -5), (5, 0), (0, 5), (-5, 0))}[shape]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon points="{points}" {kind}>{inner}</polygon>'


def short_number(value):
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"


def short_bytes(value):
    for limit, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if value >= limit:
            return f"{value / limit:g} {unit}"
    return f"{value:g} B"


def log_ticks(low, high, base):
    """Round values that enclose low..high: powers of two, or 1, 2, 5 times a power of ten."""
    if base == 2:
        first, last = math.floor(math.log2(low)), math.ceil(math.log2(high))
        return [2.0**power for power in range(first, max(last, first + 1) + 1)]
    every = [step * 10.0**power for power in range(-3, 12) for step in (1, 2, 5)]
    first = max(index for index, value in enumerate(every) if value <= low)
    last = min(index for index, value in enumerate(every) if value >= high)
    return every[first:max(last, first + 1) + 1]


def spread(wanted, low, high):
    """Places for labels near wanted ones, at least LABEL_GAP apart, within low..high."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places, last = [0.0] * len(wanted), -math.inf
    for index in order:
        places[index] = last = max(wanted[index], low, last + LABEL_GAP)
    limit = high
    for index in reversed(order):
        places[index] = min(places[index], limit)
        limit = places[index] - LABEL_GAP
    return places


def x_labels(values, at):
    """Which of the values get a label: ends and powers of two first, the others where there is room."""
    chosen = []
    rank = lambda v: (v not in (values[0], values[-1]), math.log2(v) % 1 != 0, v)  # noqa: E731
    for value in sorted(values, key=rank):
        if all(abs(at(value) - at(other)) >= TICK_GAP for other in chosen):
            chosen.append(value)
    return sorted(chosen)


def legend(names, left, y):
    """One row of markers and names."""
    body, x = [], left
    for number, name in names:
        dash = STYLES[number][3]
        body.append(f'<line x1="{x}" y1="{y - 4}" x2="{x + 26}" y2="{y - 4}" class="l{number}" stroke-width="{STYLES[number][4]}"'
                    + (f' stroke-dasharray="{dash}"' if dash else "") + "/>")
        body.append(marker(number, x + 13, y - 4))
        body.append(text(x + 32, y, name, 12))
        x += 32 + 7 * len(name) + 22
    return body


def lines(title, subtitle, x_name, y_name, series, y_base=10, y_short=short_number):
    """A chart with logarithmic axes. series: [(style number, name, {x: y})]; all y positive."""
    values = sorted({x for _, _, points in series for x in points})
    heights = [y for _, _, points in series for y in points.values()]
    ticks = log_ticks(min(heights), max(heights), y_base)
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    x_low, x_span = math.log(values[0]), math.log(values[-1] / values[0]) or 1
    x_at = lambda x: LEFT + 12 + (right - LEFT - 24) * (math.log(x) - x_low) / x_span  # noqa: E731
    y_at = lambda y: bottom - (bottom - TOP) * math.log(y / ticks[0]) / math.log(ticks[-1] / ticks[0])  # noqa: E731
    body = [text(LEFT, 28, title, 17, extra=' font-weight="600"'), text(LEFT, 48, subtitle, 12, kind="muted"),
            *legend([(number, name) for number, name, _ in series], LEFT, 74)]
    for tick in ticks:
        y = y_at(tick)
        body.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" class="grid" stroke-width="1"/>')
        body.append(text(LEFT - 8, y + 4, y_short(tick), 12, "end", "muted"))
    body.append(f'<line x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}" class="axis" stroke-width="1"/>')
    labelled = x_labels(values, x_at)
    for value in values:
        x, length = x_at(value), 6 if value in labelled else 3
        body.append(f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + length}" class="axis" stroke-width="1"/>')
        if value in labelled:
            body.append(text(x, bottom + 20, f"{value}", 12, "middle", "muted"))
    body.append(text((LEFT + right) / 2, HEIGHT - 14, x_name, 13, "middle"))
    body.append(text(18, (TOP + bottom) / 2, y_name, 13, "middle", extra=f' transform="rotate(-90 18 {(TOP + bottom) / 2:.1f})"'))
    ends = []
    for number, name, points in reversed(series):  # the first one on top
        path = " ".join(f"{x_at(x):.1f},{y_at(points[x]):.1f}" for x in sorted(points))
        dash = f' stroke-dasharray="{STYLES[number][3]}"' if STYLES[number][3] else ""
        body.append(f'<polyline points="{path}" class="l{number}" stroke-width="{STYLES[number][4]}" stroke-linejoin="round"{dash}/>')
        body += [marker(number, x_at(x), y_at(y), f"{name}, {x_name} {x}: {y:,.0f}") for x, y in sorted(points.items())]
        ends.append((number, name, x_at(max(points)), y_at(points[max(points)])))
    for (number, name, x, y), place in zip(ends, spread([end[3] for end in ends], TOP, bottom)):
        body.append(f'<line x1="{x + 7:.1f}" y1="{y:.1f}" x2="{right + 4}" y2="{place:.1f}" class="l{number}" stroke-width="0.8" opacity="0.6"/>')
        body.append(text(right + 8, place + 4, name, 12, kind=f"t{number}", extra=' font-weight="600"'))
    return picture(WIDTH, HEIGHT, title, body)


def close_ticks(low, high, steps, base):
    """Round values within low..high: steps times a power of base; fewer of the steps if they are many."""
    first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
    for kept in range(len(steps)):
        found = sorted({step * float(base) ** power for power in range(first, last + 1) for step in steps[:len(steps) - kept]})
        found = [value for value in found if low <= value <= high]
        if len(found) <= 9:
            break
    return found


def short_seconds(value):
    return f"{value:g} s" if value >= 1 else f"{value * 1e3:g} ms"


def tradeoff(title, subtitle, x_name, y_name, series):
    """Seconds over bytes, both logarithmic. series: [(style number, name, [(bytes, seconds, tip)])], joined in order."""
    every = [point for _, _, points in series for point in points]
    (left_most, right_most), (lowest, highest) = (
        (min(values) / 1.12, max(values) * 1.12) for values in ([p[0] for p in every], [p[1] for p in every]))
    right, foot, top = WIDTH - 36, HEIGHT - BOTTOM, TOP + 22
    x_at = lambda x: LEFT + (right - LEFT) * math.log(x / left_most) / math.log(right_most / left_most)  # noqa: E731
    y_at = lambda y: foot - (foot - top) * math.log(y / lowest) / math.log(highest / lowest)  # noqa: E731
    body = [text(LEFT, 28, title, 17, extra=' font-weight="600"'), text(LEFT, 48, subtitle, 12, kind="muted")]
    names = [(number, name) for number, name, _ in series]
    half = len(names) if len(names) < 5 else -(-len(names) // 2)
    body += legend(names[:half], LEFT, 74) + legend(names[half:], LEFT, 94)
    for tick in close_ticks(lowest, highest, (1, 2, 5, 3, 1.5, 7, 4, 2.5), 10):
        y = y_at(tick)
        body.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" class="grid" stroke-width="1"/>')
        body.append(text(LEFT - 8, y + 4, short_seconds(tick), 12, "end", "muted"))
    for tick in close_ticks(left_most, right_most, (1, 1.5, 1.25, 1.75), 2):
        x = x_at(tick)
        body.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{foot}" class="grid" stroke-width="1"/>')
        body.append(text(x, foot + 20, short_bytes(tick), 12, "middle", "muted"))
    body.append(f'<line x1="{LEFT}" y1="{foot}" x2="{right}" y2="{foot}" class="axis" stroke-width="1"/>')
    body.append(text((LEFT + right) / 2, HEIGHT - 14, x_name, 13, "middle"))
    body.append(text(18, (top + foot) / 2, y_name, 13, "middle", extra=f' transform="rotate(-90 18 {(top + foot) / 2:.1f})"'))
    for number, _, points in reversed(series):  # the first one on top
        dash = f' stroke-dasharray="{STYLES[number][3]}"' if STYLES[number][3] else ""
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y, _ in points)
        body.append(f'<polyline points="{path}" class="l{number}" stroke-width="{STYLES[number][4]}" stroke-linejoin="round"{dash}/>')
        body += [marker(number, x_at(x), y_at(y), f"{tip}: {y:.4g} s, {x / 2**20:.0f} MiB") for x, y, tip in points]
    return picture(WIDTH, HEIGHT, title, body)


TILE_WIDTH, TILE_HEIGHT = 58, 36


def tiles(title, subtitle, x_name, y_name, panels, kinds, columns=3):
    """Grids of tiles. panels: [(name, {(x, y): (kind, words, tip)})]; kinds: [(short, name)], coloured in order."""
    xs = sorted({x for _, grid in panels for x, _ in grid})
    ys = sorted({y for _, grid in panels for _, y in grid})
    wide, high = max(TILE_WIDTH * len(xs) + 74, 270), TILE_HEIGHT * len(ys) + 76
    rows = -(-len(panels) // columns)
    body = [text(24, 30, title, 17, extra=' font-weight="600"'), text(24, 50, subtitle, 12, kind="muted")]
    at, line = 24, 76
    number = {short: index % len(FILLS) for index, (short, _) in enumerate(kinds)}
    for short, name in kinds:
        words = f"{short}: {name}"
        if at + 7 * len(words) > 24 + wide * columns:
            at, line = 24, line + 20
        body.append(f'<rect x="{at}" y="{line - 12}" width="16" height="16" rx="3" class="f{number[short]}"/>')
        body.append(text(at + 22, line, words, 12))
        at += 22 + 7 * len(words) + 16
    top = line + 22
    for index, (name, grid) in enumerate(panels):
        left, upper = 24 + wide * (index % columns) + 44, top + high * (index // columns) + 24
        body.append(text(left, upper - 8, name, 13, extra=' font-weight="600"'))
        for row, y in enumerate(reversed(ys)):
            middle = upper + TILE_HEIGHT * row + TILE_HEIGHT / 2
            body.append(text(left - 6, middle + 4, f"{y}", 11, "end", "muted"))
            for column, x in enumerate(xs):
                if (x, y) not in grid:
                    continue
                kind, words, tip = grid[x, y]
                place = left + TILE_WIDTH * column
                body.append(f'<rect x="{place + 1}" y="{middle - TILE_HEIGHT / 2 + 1:.1f}" width="{TILE_WIDTH - 2}" height="{TILE_HEIGHT - 2}" '
                            f'rx="3" class="f{number[kind]}"><title>{escape(tip)}</title></rect>')
                body.append(text(place + TILE_WIDTH / 2, middle - 2, kind, 12, "middle", extra=' font-weight="600" pointer-events="none"'))
                body.append(text(place + TILE_WIDTH / 2, middle + 11, words, 10, "middle", extra=' pointer-events="none"'))
        foot = upper + TILE_HEIGHT * len(ys)
        for column, x in enumerate(xs):
            body.append(text(left + TILE_WIDTH * (column + 0.5), foot + 15, f"{x}", 11, "middle", "muted"))
        body.append(text(left + TILE_WIDTH * len(xs) / 2, foot + 32, x_name, 12, "middle"))
        turn = upper + TILE_HEIGHT * len(ys) / 2
        body.append(text(left - 34, turn, y_name, 12, "middle", extra=f' transform="rotate(-90 {left - 34} {turn:.1f})"'))
    return picture(48 + wide * columns, top + high * rows + 16, title, body)
