"""What README and docs/ say is what the command does: transcripts are run as they stand, tables of planned figures are planned
again, options and files that are named exist, links lead somewhere.

A transcript is a fenced block with lines `$ command`: those of one document run one after the other in one folder, and what
they print must be what stands below them. `...` stands for anything; `...` in a command for the arguments of the one like it
that was written out before. What differs between machines (seconds, words a second, how much memory there is) is not compared.

A comment `<!-- figures: FIELD, FIELD -->` before a table says that its last columns are these fields of what the commands of the
next fenced block, one for each row, print with --json; `a/b` is a ratio, `-` a column that is not checked. Commands
may also stand in the comment, one a line. With `figures: by row` fields are named in the first column, and every other
column has a command.

A fenced block marked `sample` shows what is not the same twice, or needs what is not there: it is not run.

With EBB_LONG=1 (`make test-docs`) the tutorials, which train for minutes, are run too. `test_docs.py --write` puts the figures of
this version into the tables (transcripts are mended by hand)."""
import functools
import glob
import json
import os
import re
import shlex
import subprocess
import sys

from ebbtest import EBB, SANITIZED, main

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
LONG = bool(os.environ.get("EBB_LONG"))
TUTORIALS = {"docs/tutorial.md", "docs/tutorial-images.md"}
# Commands of these need what a machine may not have.
ELSEWHERE = re.compile(r"python3|mpirun|make |sudo |git |cc |\bmore\b")
# What is not the same on every machine, or on one at two times.
MACHINE = re.compile(r"\d[\d.]*k? (?:words|images)/s|\d[\dhm]*s left|\d[\d.]* s\b|budget +[\d.]+ [GM]iB|, \d[\d.]*k? words/s")
FENCE = re.compile(r"^[ ]*```(\w*)\n(.*?)^[ ]*```", re.S | re.M)
UNITS = {"MiB": 2**20, "GiB": 2**30, "MB": 1e6, "GB": 1e9}


def documents():
    return ["README.md", "CONTRIBUTING.md"] + sorted(os.path.relpath(path, ROOT) for path in glob.glob(f"{ROOT}/docs/**/*.md", recursive=True))


@functools.cache
def read(document):
    with open(os.path.join(ROOT, document), encoding="utf8") as file:
        return file.read()


def line_of(document, position):
    return f"{document}:{read(document)[:position].count(chr(10)) + 1}"


def report(wrong):
    assert not wrong, "\n" + "\n".join(wrong)


# ---- transcripts ----

def steps(block):
    """Of a transcript: (command, what it prints) for every line `$ command`."""
    found = []
    for line in re.sub(r"\\\n\s*", "", block).splitlines():
        if line.startswith("$ "):
            found.append((line[2:].split("   #")[0].rstrip(), []))
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(lines)) for command, lines in found]


def spelt_out(command, before):
    """`ebb train nmt ... --memory 64M`: `...` is what the command of these first words had before, but for options given anew."""
    if " ..." not in command:
        return command
    first, rest = command.split(" ...", 1)
    like = next(old for old in reversed(before) if old.startswith(first + " "))
    for option in re.findall(r"--[a-z-]+", rest):
        like = re.sub(rf" {option}(?: (?!--)\S+)*", "", like)
    return like + rest


def pattern(printed):
    """Matches what a transcript shows, whatever the spaces and line ends."""
    words = re.split(r"\s*\.\.\.\s*", MACHINE.sub("...", " ".join(printed.split())))
    return re.compile(".*?".join(re.escape(word) for word in words) + r"\s*", re.S)


def run(command):
    cores = sorted(os.sched_getaffinity(0))[:2]  # transcripts are those of two cores
    tools = os.path.abspath("bin")
    if not os.path.isdir(tools):
        os.makedirs(tools)
        os.makedirs("build")
        os.symlink(EBB, "bin/ebb")
        os.symlink(EBB, "build/ebb")
        os.symlink(f"{ROOT}/tools", "tools")
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "120"}
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          env=environment, timeout=250, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    return done.stdout.decode("utf8", "replace")


def follow(document):
    """Runs the document's transcripts; what is wrong."""
    wrong, before, given = [], [], ""
    for fence in FENCE.finditer(read(document)):
        for command, printed in steps(fence.group(2)) if fence.group(1) != "sample" else []:
            if ELSEWHERE.search(command):
                continue
            if re.match(r"\w+=", command):
                given += command + "\n"
                continue
            whole = spelt_out(command, before)
            before += [whole] if whole == command else []
            got = run(given + whole)
            if printed.strip() and not pattern(printed).fullmatch(MACHINE.sub("...", " ".join(got.split()))):
                wrong.append(f"{line_of(document, fence.start())}: {whole}\n  prints   {got.strip()[-1500:]}\n  not      {printed}")
    return wrong


def transcripts_of(document):
    def test():
        report(follow(document))
    test.__name__ = "test_transcripts_of_" + re.sub(r"\W", "_", document)
    return test


for name in documents():
    if "\n$ " in read(name) and not SANITIZED and (LONG or name not in TUTORIALS):
        globals()["test_transcripts_of_" + re.sub(r"\W", "_", name)] = transcripts_of(name)


# ---- tables ----

def planned(command):
    words = shlex.split(command.split("#")[0])
    words = words[1:] if words[0].endswith("ebb") else words
    words += [] if "--json" in words else ["--json"]
    done = subprocess.run([EBB, *words], capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return json.loads(done.stdout)


def shown(cell, figures, field):
    """The cell with what the field is now, as precisely as it was written."""
    over, _, under = field.partition("/")
    if isinstance(figures[over], str):
        return figures[over]
    value = figures[over] / (figures[under] if under else 1)
    number = re.search(r"((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?)\s*(MiB|GiB|MB|GB|x)?", cell)
    now = f"{value / UNITS.get(number.group(3), 1):{',' if ',' in number.group(1) else ''}.{len(number.group(2) or '')}f}"
    return cell[:number.start(1)] + now + cell[number.end(1):]


def commands_of(lines):
    """What a block of commands runs, one a line, with its variables filled in."""
    given, commands = {}, []
    for line in re.sub(r"\\\n\s*", "", lines).strip().splitlines():
        line = line.removeprefix("$ ")
        if assigned := re.fullmatch(r'(\w+)="(.*)"', line):
            given[assigned.group(1)] = assigned.group(2)
        else:
            commands.append(re.sub(r"\$(\w+)", lambda name: given[name.group(1)], line))
    return commands


def tables(document):
    """(position, fields or None, rows of cells, commands) of every table with a comment `figures:`."""
    text = read(document)
    for comment in re.finditer(r"<!-- figures: ([^\n]*?)(?: -->|\n(.*?)-->)\n+((?:\|[^\n]*\n)+)", text, re.S):
        fields = re.sub(r"\s", "", comment.group(1)).split(",") if comment.group(1) != "by row" else None
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in comment.group(3).splitlines()[2:]]
        commands = commands_of(comment.group(2) or FENCE.search(text, comment.end()).group(2))
        yield comment.start(3), fields, rows, commands


def cells_of(fields, rows, commands):
    """(row, column, field, command) of all that a table shows."""
    if fields is None:
        return [(row, i + 1, row[0].strip("`"), command) for row in rows for i, command in enumerate(commands)]
    assert len(rows) == len(commands), f"{len(rows)} rows, {len(commands)} commands: {rows[0]}"
    return [(row, i - len(fields), field, command) for row, command in zip(rows, commands) for i, field in enumerate(fields)]


def differing():
    """(document, position of the table, cells of the row, column, what it should say) of every wrong cell."""
    known = {}
    for document in documents():
        for position, *table in tables(document):
            for row, column, field, command in cells_of(*table):
                if field in ("-", "vm_hwm_bytes"):
                    continue
                if command not in known:
                    known[command] = planned(command)
                now = shown(row[column], known[command], field)
                if now != row[column]:
                    yield document, position, row, column, now
    assert known


def test_planned_figures_are_those_of_the_planner():
    report([f"{line_of(document, position)}: {' | '.join(row)}: column {column}: {now}"
            for document, position, row, column, now in differing()])


def write_figures():
    for document, position, row, column, now in list(differing()):
        text = read(document)
        line = re.compile(r"\| *" + r" *\| *".join(re.escape(cell) for cell in row) + r" *\|").search(text, position)
        row[column] = now
        with open(os.path.join(ROOT, document), "w", encoding="utf8") as file:
            file.write(text[:line.start()] + "| " + " | ".join(row) + " |" + text[line.end():])
        read.cache_clear()


# ---- names ----

@functools.cache
def options_of(words):
    shown = subprocess.run([EBB, "help", *words], capture_output=True, text=True, check=False)
    return set(re.findall(r"^  (--[a-z0-9-]+)", shown.stdout, re.M)) if shown.returncode == 0 else None


def test_options_exist():
    wrong, count = [], 0
    for document in documents():
        if "/decisions/" in document or "/notes/" in document:  # of their time
            continue
        for fence in FENCE.finditer(read(document)):
            for line in re.sub(r"\\\n\s*", " ", fence.group(2)).splitlines():
                for used in re.findall(r"(?:^|[\s/])ebb ((?:[a-z]+ ?)+[^|&;#]*)", line):
                    if "$" in used:
                        continue
                    words = re.match(r"[a-z]+(?: [a-z]+)?", used).group().split()
                    known = next((found for n in (2, 1) if (found := options_of(tuple(words[:n]))) is not None), None)
                    for option in re.findall(r"(?:^|\s)(--[a-z][a-z0-9-]*)", used) if known is not None else []:
                        count += 1
                        if option not in known:
                            wrong.append(f"{line_of(document, fence.start())}: {option} is no option of ebb {' '.join(words)}")
    assert count > 50
    report(wrong)


# Of tools that are not the command: their help is their own.
OF_OTHERS = re.compile(r"mpirun|bench/|tools/|tests/|pkg-config|tensorboard|subword-nmt|--mca|cmake|pip ")


def test_options_in_sentences_exist():
    """`--option` in running text is one of the command."""
    every = {option for page in subprocess.run([EBB, "help", "man"], capture_output=True, text=True, check=True).stdout.split()
             for option in options_of(tuple(page.split("-")[1:])) or ()}
    every |= set(re.findall(r"--[a-z]+", subprocess.run([EBB, "help"], capture_output=True, text=True, check=True).stdout)) | {"--help"}
    wrong, count = [], 0
    for document in documents():
        if re.search("/decisions/|/notes/|benchmarks", document):
            continue
        text = FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), read(document))
        for quoted in re.finditer(r"`([^`\n]*)`", text):
            for option in re.findall(r"(?:^|[\s|(])(--[a-z][a-z0-9-]*)", quoted.group(1)) if not OF_OTHERS.search(quoted.group(1)) else []:
                count += 1
                if option not in every and option.replace("--no-", "--", 1) not in every:
                    wrong.append(f"{line_of(document, quoted.start())}: {option} is no option of any command")
    assert count > 100
    report(wrong)


def test_names_of_the_header_exist():
    with open(os.path.join(ROOT, "include/ebb.h"), encoding="utf8") as file:
        known = set(re.findall(r"\b(?:ebb_\w+|EBB_\w+)\b", file.read()))
    for document in "README.md", "docs/api.md", "docs/from-pytorch.md", "docs/devices.md":
        used = set(re.findall(r"\b(?:ebb_[a-z]\w*[a-z]|EBB_[A-Z]\w*[A-Z])\b", read(document)))
        assert used <= known | {"ebb_options_default"}, (document, used - known)


def test_readme_has_every_command():
    told = subprocess.run([EBB, "help"], capture_output=True, text=True, check=True).stdout
    commands = {" ".join(found.split()) for found in re.findall(r"^  ebb ((?:[a-z]+ ?){1,2})", told, re.M)} - {"generate run", "train lm"}
    table = read("README.md").split("## The commands")[1].split("\n## ")[0]
    listed = set(re.findall(r"`([a-z]+(?: [a-z]+)?)`", table))
    missing = {command for command in commands if command not in listed and command.split()[0] not in listed}
    assert len(commands) > 20 and not missing, missing
    wrong = {name for name in listed - {"help"} if options_of(tuple(name.split())) is None}
    assert not wrong, wrong


def test_files_exist():
    """Paths in backquotes, as in `src/plan/walk.c` or `src/op/ref/*.inc`."""
    wrong = []
    for document in documents():
        if re.search("/decisions/|/notes/|/add-", document):  # how-tos name files that their reader makes
            continue
        for named in re.finditer(r"`((?:src|tests|tools|bench|examples|include|docs|plugin|cmake|python)/[\w./*-]+)`", read(document)):
            path = os.path.join(ROOT, named.group(1).rstrip("/."))
            if not (glob.glob(path) or glob.glob(path + ".*")):
                wrong.append(f"{line_of(document, named.start())}: there is no {named.group(1)}")
    report(wrong)


def anchors(document):
    heads = re.findall(r"^#+ (.*)$", FENCE.sub("", read(document)), re.M)
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", head).lower()).replace(" ", "-") for head in heads}


def test_links_lead_somewhere():
    wrong = []
    for document in documents():
        for link in re.finditer(r"\]\(([^)\s]+)\)", FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), read(document))):
            target, _, anchor = link.group(1).partition("#")
            if "://" in target:
                continue
            path = os.path.normpath(os.path.join(os.path.dirname(document), target)) if target else document
            if not os.path.exists(os.path.join(ROOT, path)):
                wrong.append(f"{line_of(document, link.start())}: there is no {path}")
            elif anchor and path.endswith(".md") and anchor not in anchors(path):
                wrong.append(f"{line_of(document, link.start())}: {path} has no heading {anchor}")
    report(wrong)


if "--write" in sys.argv:
    write_figures()
else:
    main(globals())
