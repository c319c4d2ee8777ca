"""Where output goes, and what happens when it cannot: pipes, full disks, terminals."""
import os
import pty
import subprocess

from ebbtest import EBB, TINY, ebb, main, text


def shell(script):
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "EBB": EBB}, timeout=100)


def test_full_disk():
    for command in ["--help", "--version", "plan lm --layers 1 --hidden 4 --vocab 9 --json"]:
        done = shell(f"$EBB {command} >/dev/full")
        assert done.returncode == 7 and done.stderr.startswith("ebb: standard output") and done.stderr.count("\n") == 1, done


def test_closed_output():
    done = shell("$EBB --version >&-")
    assert done.returncode == 7 and done.stderr.startswith("ebb: standard output"), done
    text("t")
    done = shell(f"$EBB train lm {' '.join(TINY)} --train t --steps 2 --quiet --out run >&- 2>&- <&-")
    assert done.returncode == 0 and sorted(os.listdir("run")) == sorted(set(os.listdir("run")) | {"last.safetensors", "config"})


def test_reader_that_has_gone():
    done = shell("(sleep 0.2; $EBB train lm --help; echo $? >code) | true; sleep 0.01; while [ ! -s code ]; do sleep 0.05; done")
    assert done.stderr == "", done.stderr
    assert open("code", encoding="utf8").read().strip() == "7"


def on_terminal(term):
    text("t")
    primary, secondary = pty.openpty()
    process = subprocess.Popen([EBB, "train", "lm", *TINY, "--train", "t", "--steps", "200", "--log-every", "100", "--fresh", "--out", "run"],
                               stderr=secondary, stdout=subprocess.DEVNULL, env={**os.environ, "TERM": term})
    os.close(secondary)
    shown = b""
    while True:
        try:
            chunk = os.read(primary, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(primary)
    assert process.wait() == 0
    return shown.decode().replace("\r\n", "\n")


def test_a_bar_only_on_a_terminal():
    live = on_terminal("xterm")
    assert "\r" in live and "step 200/200" in live and "\x1b" not in live
    dumb = on_terminal("dumb")
    assert "\r" not in dumb and "step 200/200" in dumb
    plain = ebb("train", "lm", *TINY, "--train", "t", "--steps", "200", "--log-every", "100", "--fresh", "--out", "run")
    assert "\r" not in plain.err and "words/s" in plain.err and plain.out == ""
    assert ebb("train", "lm", *TINY, "--train", "t", "--steps", "200", "--fresh", "--quiet", "--out", "run").err == ""


def test_generated_text_is_the_same_twice():
    ebb("data", "grammar", "a", "--lines", "50", "--seed", "3")
    ebb("data", "grammar", "b", "--lines", "50", "--seed", "3")
    ebb("data", "grammar", "c", "--lines", "50", "--seed", "4")
    read = lambda name: open(name, encoding="utf8").read()
    assert read("a") == read("b") != read("c") and read("a").count("\n") == 50


main(globals())
