"""ebb decode: a line for a line, in order, as they come; the same bytes however it is run; odd input and broken models."""
import atexit
import json
import os
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import xml.etree.ElementTree as tree

from ebbtest import EBB, ebb, main, refused, text, write

SOURCES = ["the third of march , nineteen ninety-four", "tue , 5 oct 2004", "12 / 31 / 99", "christmas eve 1987", "4 . 11 . 99"]
ROOM = ["--memory", "64M"]
made = []


def model():
    """A model that has seen a few dates: what it says is often wrong, but always the same."""
    if not made:
        folder = tempfile.mkdtemp()
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        ebb("data", "dates", folder + "/t.src", folder + "/t.tgt", "--lines", "1500")
        ebb("data", "dates", folder + "/v.src", folder + "/v.tgt", "--lines", "20", "--seed", "2")
        ebb("train", "nmt", "--train", folder + "/t.src", folder + "/t.tgt", "--valid", folder + "/v.src", folder + "/v.tgt", "--hidden", "24",
            "--batch", "16", "--vocab", "all", "--lr", "0.01", "--epochs", "6", "--threads", "1", "--out", folder + "/run", "--quiet")
        made.append(folder + "/run")
    return made[0]


def copy(name):
    return shutil.copytree(model(), name)


def dates(lines=150):
    ebb("data", "dates", "d.src", "d.tgt", "--lines", lines, "--seed", "3")
    with open("d.src", "rb") as file:
        return file.read()


def decode(data, *options, folder=None, expect=0):
    data = data if isinstance(data, bytes) else data.encode()
    return ebb("decode", folder or model(), "--threads", "1", *options, expect=expect, input=data)


def figures(result):
    return {name: int(value) for name, value in re.findall(r"(most memory|planned) (\d+)", result.err)}


def test_a_line_for_a_line():
    answers = decode("\n".join(SOURCES) + "\n").out.split("\n")
    assert len(answers) == 6 and answers[-1] == "" and all(answers[:5]) and len(set(answers)) > 2, answers
    for i, source in enumerate(SOURCES):  # nobody's neighbours matter
        assert decode(source + "\n").out == answers[i] + "\n"
    mixed = decode("\n%s\r\n\n \t\n\xef\xbb\xbf%s" % (SOURCES[0], SOURCES[1])).out.split("\n")
    assert mixed[0] == mixed[2] == mixed[3] == "" and mixed[1] == answers[0] and len(mixed) == 6 and mixed[5] == "", mixed
    assert decode(b"\xef\xbb\xbf" + SOURCES[1].encode()).out == answers[1] + "\n"
    assert decode("").out == "" and decode("\n").out == "\n"


def test_the_same_bytes_however_it_is_run():
    data = dates()
    for options in [["--beam", "1"], ["--beam", "5", "--nbest", "3"]]:
        first = decode(data, *options, *ROOM).out
        assert first.count("\n") == (150 if len(options) == 2 else 450)
        for more in [["--batch", "1"], ["--batch", "7"], ["--batch", "64"], ["--threads", "2"], ["--threads", "2", "--batch", "3"]]:
            assert decode(data, *options, *ROOM, *more).out == first, (options, more)
    # A run in shards is decoded in any batch.
    copy("sharded")
    config = open("sharded/config").read()
    write("sharded/config", config.replace("shards = 1", "shards = 2"))
    assert decode(data, *options, "--batch", "5", folder="sharded").out == first


def test_nbest():
    data = "\n".join(SOURCES) + "\n\n"
    plain = decode(data, "--beam", "4").out.splitlines()
    rows = [line.split(" ||| ") for line in decode(data, "--beam", "4", "--nbest", "4", "--length-penalty", "0.5").out.splitlines()]
    assert sorted({int(row[0]) for row in rows}) == list(range(6)) and all(len(row) == 4 for row in rows)
    for number in range(5):
        mine = [row for row in rows if row[0] == str(number)]
        scores = [float(row[3]) for row in mine]
        assert 1 <= len(mine) <= 4 and scores == sorted(scores, reverse=True) and len({row[1] for row in mine}) == len(mine)
        for row in mine:  # <eos> counts
            words = len(row[1].split())
            found = [abs(float(row[2]) / n**0.5 - float(row[3])) < 1e-4 for n in (words, words + 1)]
            assert any(found), row
    best = [line.split(" ||| ") for line in decode(data, "--beam", "4", "--nbest", "2").out.splitlines()]
    assert [[row[1] for row in best if row[0] == str(i)][0] for i in range(6)] == plain
    refused(2, "decode", model(), "--nbest", "6", says=["--nbest 6", "--beam 5"])


def answer(process, deadline=100):
    ready, _, _ = select.select([process.stdout], [], [], deadline)
    assert ready, "no answer while the input stays open"
    return process.stdout.readline().decode()


def test_lines_are_answered_as_they_come():
    whole = decode("\n".join(SOURCES) + "\n").out.splitlines(keepends=True)
    process = subprocess.Popen([EBB, "decode", model(), "--threads", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    for i in range(3):
        half = SOURCES[i].encode()
        process.stdin.write(half[:4])
        time.sleep(0.05)
        process.stdin.write(half[4:] + b"\n")
        assert answer(process) == whole[i], i
    process.stdin.write(SOURCES[3].encode())  # unfinished
    process.stdin.close()
    assert process.stdout.read().decode() == whole[3] and process.wait(60) == 0


def test_a_signal_keeps_what_is_done():
    process = subprocess.Popen([EBB, "decode", model(), "--threads", "1", "--attention", "a.json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, bufsize=0)
    process.stdin.write(SOURCES[0].encode() + b"\n")
    first = answer(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75 and out == b"" and first.strip() and b"stopped" in err and err.count(b"\n") == 1, err
    assert json.loads(open("a.json").read())["line"] == 1


def test_words_nobody_knows():
    good = decode(SOURCES[0] + "\n").out
    unknown = decode("what is this\n").out
    result = decode(b"what \xff\xfe\xc3 this\n" + SOURCES[0].encode() + b"\nwhat \0is\0 this\nok\n")
    lines = result.out.split("\n")
    assert lines[0] + "\n" == unknown and lines[1] + "\n" == good and lines[2] + "\n" == unknown and len(lines) == 5
    assert result.err.count("\n") == 1 and "2 lines" in result.err and "line 1" in result.err, result.err
    assert decode("what is this\n").err == ""


def test_lines_too_long():
    longest = "the third of march , nineteen ninety-four " * 15000  # 105,000 words
    result = decode("\n".join([SOURCES[1], longest, SOURCES[1], longest[:-9]]) + "\n")
    lines = result.out.splitlines()
    assert len(lines) == 4 and lines[0] == lines[2] != "" and lines[1] == lines[3]
    assert result.err.count("\n") == 1 and "2 lines" in result.err and "line 2" in result.err, result.err
    huge = b"x" * (9 << 20)
    result = decode(huge + b"\n" + SOURCES[1].encode() + b"\n" + huge + b" " + huge)
    assert result.out.splitlines()[1] == lines[0] and result.out.count("\n") == 3
    assert result.err.count("\n") == 1 and "2 lines" in result.err and "4 MiB" in result.err, result.err


def test_long_sources_are_translated_whole():
    """Longer than any that the model was trained on: as by a run that was trained on longer ones."""
    shutil.copytree(model(), "wide")
    config = open("wide/config", encoding="utf8").read()
    write("wide/config", re.sub("max-len = .*", "max-len = 900", config))
    data = "\n".join([SOURCES[0], "the third of march , " * 40, SOURCES[1], "", "may " * 130, "the " * 600 + "ninth", SOURCES[2]]) + "\n"
    narrow, wide = decode(data, "--verbose"), decode(data, folder="wide")
    assert narrow.out == wide.out and narrow.out.count("\n") == 7 and "tokens: only so many" not in narrow.err, narrow.err
    assert decode(data, "--batch", "2", "--threads", "2", "--nbest", "2").out == decode(data, "--nbest", "2", folder="wide").out
    used = figures(narrow)
    assert used["planned"] >= used["most memory"] > 0
    # Where the budget has no room for them they are cut, and that is said.
    refusal = refused(4, "decode", model(), "--threads", "1", "--memory", "1000", says="least")
    least = re.search(r"--memory (\d+)", refusal).group(1)
    tight = decode(data, "--memory", least, "--verbose")
    assert "3 lines with more than 100 tokens" in tight.err and "line 2" in tight.err and "--memory" in tight.err, tight.err
    used = figures(tight)
    assert used["planned"] == used["most memory"] <= int(least) and tight.out.splitlines()[0] == narrow.out.splitlines()[0]


def test_unknown_words():
    """A model of few words: <unk> stays, is banned, or is the word that it attended to."""
    ebb("data", "dates", "t.src", "t.tgt", "--lines", "300")
    ebb("train", "nmt", "--train", "t.src", "t.tgt", "--vocab", "9", "--hidden", "24", "--batch", "16", "--steps", "120", "--lr", "0.02", "--threads", "1",
        "--out", "few", "--quiet")
    data = "".join(open("t.src", encoding="utf8").readlines()[:60]) + "x\u00e4 y </s> z\n\n" + "long " + "y" * 2000 + "\n"
    keep, ban, replace = (decode(data, "--unk", way, folder="few").out.split("\n") for way in ["keep", "ban", "replace"])
    assert decode(data, folder="few").out.split("\n") == replace and sum("<unk>" in line for line in keep) > 10
    assert not any("<unk>" in line for line in ban) and len(ban) == len(keep) == len(replace)
    result = decode(data, "--unk", "keep", "--attention", "a.json", folder="few")
    assert result.out.split("\n") == keep
    rows = [json.loads(line) for line in open("a.json", encoding="utf8")]
    for row, line, kept, typed in zip(rows, replace, keep, data.split("\n")):
        words, source = [], typed.split()
        for word, weights in zip(kept.split(), row["weights"]):
            best = max(range(len(source)), key=lambda i: weights[i]) if word == "<unk>" else None
            words.append(word if best is None or len(source[best]) > 1000 else source[best])
        assert line.split() == words, (line, words, kept, typed)
    assert any(line.split() != kept.split() for line, kept in zip(replace, keep))
    best = decode(data, "--nbest", "3", folder="few").out.splitlines()
    assert [line.split(" ||| ")[1] for line in best if line.split(" ||| ")[0] == "3"][0].split() == replace[3].split()
    decode(data, "--attention", "b.json", folder="few")
    rows = [json.loads(line) for line in open("b.json", encoding="utf8")]
    assert [word for word in rows[0]["target"] if word != "<eos>"] == replace[0].split()
    for memory in ["3M", "64M"]:
        assert decode(data, "--memory", memory, folder="few").out.split("\n") == replace
    refused(2, "decode", "few", "--unk", "drop", says=["replace", "ban", "keep"])


def test_characters():
    ebb("data", "dates", "t.src", "t.tgt", "--lines", "200")
    ebb("train", "nmt", "--train", "t.src", "t.tgt", "--tokens", "char", "--hidden", "16", "--batch", "16", "--steps", "30", "--lr", "0.02", "--threads",
        "1", "--out", "run", "--quiet")
    result = decode(b"may 5 , 1999\nm\xc3\xa4rz \xff 7\n\n", "--attention", "a.json", folder="run")
    rows = [json.loads(line) for line in open("a.json", encoding="utf8")]
    assert rows[0]["source"] == list("may 5 , 1999") + ["<eos>"]
    assert rows[1]["source"] == ["m", "<unk>", "r", "<unk>", " ", "<unk>", " ", "7", "<eos>"], rows[1]  # a byte that is no character counts as one
    for row, line in zip(rows, result.out.split("\n")):
        assert "".join(word for word in row["target"] if word != "<eos>") == line and line == line.replace("  ", " ")
    assert result.out.split("\n")[0] != ""


def test_attention():
    data = "\n".join([SOURCES[0], "", "a <b> & \"c\" \\", SOURCES[4]]) + "\n"
    plain = decode(data).out
    assert decode(data, "--attention", "a.json", "--attention-svg", "a.svg").out == plain
    rows = [json.loads(line) for line in open("a.json", encoding="utf8")]
    assert [row["line"] for row in rows] == [1, 2, 3, 4]
    for row, translation in zip(rows, plain.split("\n")):
        assert row["target"] in (translation.split(), translation.split() + ["<eos>"])
        assert len(row["weights"]) == (len(row["target"]) if row["line"] != 2 else 0)
        for weights in row["weights"]:
            assert len(weights) == len(row["source"]) and abs(sum(weights) - 1) < 1e-4 and min(weights) >= 0
    assert rows[0]["source"] == SOURCES[0].split() + ["<eos>"] and rows[2]["source"] == ["<unk>"] * 5 + ["<eos>"]
    root = tree.parse("a.svg").getroot()
    words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"nineteen", "ninety-four", "<unk>", "line 1", "line 3", "line 4"} <= set(words) and "line 2" not in words
    text_of = open("a.svg", encoding="utf8").read()
    assert "prefers-color-scheme" in text_of and "href" not in text_of and "<script" not in text_of
    decode("", "--attention-svg", "none.svg")
    tree.parse("none.svg")


def test_memory_is_what_was_planned():
    data = dates(40).decode() + "may " * 100 + "\n"  # the longest sentence that is planned for
    wide = decode(data, "--verbose")
    refusal = refused(4, "decode", model(), "--threads", "1", "--memory", "1000", says="least")
    least = int(re.search(r"--memory (\d+)", refusal).group(1))
    for budget in [least, 2 * least, 64 << 20]:
        result = decode(data, "--verbose", "--memory", str(budget))
        used = figures(result)
        assert result.out == wide.out and used["planned"] == used["most memory"] <= budget, (budget, used)
    refused(4, "decode", model(), "--threads", "1", "--memory", str(least - 1), says=str(least))
    few = figures(decode(data, "--verbose", "--batch", "1"))["planned"]
    refused(4, "decode", model(), "--threads", "1", "--batch", "64", "--memory", str(few), says="too small")


def test_models_that_cannot_be_used():
    text("lm.txt")
    ebb("train", "lm", "--train", "lm.txt", "--hidden", "8", "--layers", "1", "--steps", "2", "--threads", "1", "--out", "lm", "--quiet")
    refused(5, "decode", "lm", says=["lm: is a language model", "ebb generate"])
    refused(5, "generate", model(), says=["is a translation model", "ebb decode"])
    refused(5, "decode", "nowhere", says="nowhere")
    for name in ["vocab.src.txt", "vocab.tgt.txt"]:
        os.remove(copy("run." + name) + "/" + name)
        refused(5, "decode", "run." + name, says=name)
    copy("bare")
    for name in ["best.safetensors", "last.safetensors"]:
        os.remove("bare/" + name)
    refused(5, "decode", "bare", says="weights")
    copy("cut")
    os.truncate("cut/best.safetensors", os.path.getsize("cut/best.safetensors") - 5)
    refused(5, "decode", "cut", says="best.safetensors")
    copy("other")
    shutil.copy("other/vocab.tgt.txt", "other/vocab.src.txt")
    refused(5, "decode", "other", says="other/")


def test_output_that_goes_nowhere():
    data = dates(50)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([EBB, "decode", model(), "--threads", "1"], input=data, stdout=full, stderr=subprocess.PIPE, timeout=250)
    assert done.returncode == 7 and done.stderr.count(b"\n") == 1, done.stderr
    process = subprocess.Popen([EBB, "decode", model(), "--threads", "1", "--attention", "a.json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.close()
    process.stdin.write(data)
    process.stdin.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(100) == 7 and err == b"", err
    assert not os.path.exists("a.json") and not os.path.exists("a.json.tmp")
    refused(7, "decode", model(), "--attention", "no/a.json", says="no/a.json")


main(globals())
