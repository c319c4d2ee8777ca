#!/usr/bin/env python3
"""What `ebb help man`, bash, zsh and fish write: pages that man renders without a warning and that have every option of help;
completion that completes, in a real shell; and `make deb`: a package that is unpacked into an empty root and runs there. What needs a
tool that is not here is skipped, loudly."""
import os
import re
import shutil
import subprocess
import sys

from ebbtest import EBB, SANITIZED, ebb, main, refused, write

BUILD = os.path.abspath(os.environ.get("EBB_BUILD", "build"))


def lacks(*tools):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        print(f"SKIPPED {sys._getframe(1).f_code.co_name}: there is no {' and no '.join(missing)}", file=sys.stderr)
    return bool(missing)


def pages():
    return ebb("help", "man").out.split()


def test_pages_have_every_option():
    for page in pages():
        text = ebb("help", "man", page).out.replace("\\-", "-")
        assert text.startswith('.TH "' + page.upper() + '" 1'), page
        if page != "ebb":
            told = re.findall(r"^  --([a-z0-9-]+)", ebb("help", *page.split("-")[1:]).out, re.M)
            assert len(told) > 2, page
            for option in told:
                assert option == "help" or f"\\fB--{option}\\fR" in text, (page, option)
    refused(2, "help", "man", "ebb-nothing", says="no manual page")


def test_man_renders():
    if lacks("man", "groff"):
        return
    for page in pages():
        write(page + ".1", ebb("help", "man", page).out)
        done = subprocess.run(["man", "--warnings", "-l", page + ".1"], capture_output=True, env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}, check=True)
        assert done.stderr == b"", (page, done.stderr)
        assert b"SYNOPSIS" in done.stdout and b"EXIT STATUS" in done.stdout, page


def bash_completes(line):
    """What bash offers at the end of the line."""
    script = f"""source ./ebb.bash
read -ra COMP_WORDS <<<"$1"; [ "${{1: -1}}" != ' ' ] || COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _ebb; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return subprocess.run(["bash", "-c", script, "bash", line], capture_output=True, text=True, check=True).stdout.split()


def test_bash():
    write("ebb.bash", ebb("help", "bash").out)
    assert bash_completes("ebb tra") == ["train"]
    assert set(bash_completes("ebb ")) >= {"train", "plan", "decode", "data", "help"}
    assert sorted(bash_completes("ebb train ")) == ["cnn", "lm", "nmt"]
    assert set(bash_completes("ebb data ")) >= {"codes", "build", "plan"}
    assert bash_completes("ebb train nmt --valid-m") == ["--valid-metric"]
    assert bash_completes("ebb train nmt --optimizer ad")[0] == "adam"
    assert set(bash_completes("ebb decode run --unk ")) == {"replace", "ban", "keep"}
    assert "--beam" in bash_completes("ebb decode run --") and "--beam" not in bash_completes("ebb generate run --")
    assert bash_completes("ebb decode ru") == []  # then bash offers files
    assert bash_completes("ebb data codes ") == ["learn", "apply"] and bash_completes("ebb data codes learn t") == []
    assert set(bash_completes("ebb help ")) >= {"train", "decode", "bash", "man"} and bash_completes("ebb help train ") == ["lm", "nmt", "cnn"]
    assert "bash" not in bash_completes("ebb ")
    # An interactive bash takes it.
    done = subprocess.run(["bash", "--norc", "-i", "-c", "source ./ebb.bash; complete -p ebb"], capture_output=True, text=True, check=True)
    assert "-F _ebb" in done.stdout


# An interactive zsh behind a terminal of its own; whatever it shows after a tab is printed.
ZSH = """zmodload zsh/zpty
zpty shell 'zsh -f -i'
seen() { local all='' part; for i in {1..100}; do while zpty -r -t shell part; do all+=$part; done; [[ $all == *$1* ]] && break; sleep 0.1; done; print -r -- $all }
zpty -w shell "PS1='ready> '; fpath=($PWD \\$fpath); autoload -U compinit; compinit -u -D; unsetopt list_beep auto_menu; LISTMAX=0; COLUMNS=250; print com''plete"
seen complete >/dev/null
zpty -w -n shell "$1"$'\\t\\t'
seen "$2"
"""


def test_zsh():
    write("_ebb", ebb("help", "zsh").out)
    if lacks("zsh"):
        return
    subprocess.run(["zsh", "-n", "_ebb"], check=True)
    write("drive.zsh", ZSH)
    os.makedirs("bin", exist_ok=True)
    os.symlink(os.path.abspath(EBB), "bin/ebb")
    environment = {**os.environ, "PATH": os.path.abspath("bin") + ":" + os.environ["PATH"], "TERM": "dumb", "HOME": os.getcwd()}
    for line, offers in [("ebb tra", "train"), ("ebb train ", "nmt"), ("ebb train nmt --valid-m", "--valid-metric"), ("ebb train nmt --optimizer ", "adamw"),
                         ("ebb decode run --unk ", "replace"), ("ebb data codes ", "learn"), ("ebb help ", "fish"), ("ebb help data ", "grammar")]:
        done = subprocess.run(["zsh", "-f", "drive.zsh", line, offers], capture_output=True, text=True, env=environment, timeout=60, check=False)
        assert offers in done.stdout and "rror" not in done.stderr, (line, done)


def test_fish():
    write("ebb.fish", ebb("help", "fish").out)
    if lacks("fish"):
        return
    subprocess.run(["fish", "-n", "ebb.fish"], check=True)
    for line, offers in [("ebb train nmt --optimizer ", "adam"), ("ebb tra", "train"), ("ebb train ", "nmt"), ("ebb decode run --be", "--beam"),
                         ("ebb data codes ", "learn"), ("ebb help ", "decode"), ("ebb help ", "zsh"), ("ebb help data ", "grammar"), ("ebb he", "help")]:
        done = subprocess.run(["fish", "-N", "-c", f"source ebb.fish; complete -C '{line}'"], capture_output=True, text=True, check=True)
        assert offers in done.stdout and done.stderr == "", (line, done)


def test_package_for_debian():
    if SANITIZED or lacks("dpkg-deb", "dpkg-shlibdeps", "cpack"):
        return
    if not os.path.exists(os.path.join(BUILD, "CPackConfig.cmake")):
        print("SKIPPED package_for_debian: no build folder", file=sys.stderr)
        return
    subprocess.run(["cpack", "-G", "DEB", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", os.getcwd()], check=True, capture_output=True)
    package = [name for name in os.listdir(".") if name.endswith(".deb")]
    assert len(package) == 1
    facts = subprocess.run(["dpkg-deb", "--info", package[0]], capture_output=True, text=True, check=True).stdout
    assert "Package: ebb" in facts and "libjansson4" in facts and "libxxhash0" in facts, facts
    subprocess.run(["dpkg-deb", "--extract", package[0], "root"], check=True)
    for path in ["lib/libebb.so", "include/ebb.h", "share/man/man1/ebb-train-lm.1", "share/bash-completion/completions/ebb", "share/zsh/site-functions/_ebb",
                 "share/fish/vendor_completions.d/ebb.fish", "lib/pkgconfig/ebb.pc", "lib/cmake/ebb/ebbConfig.cmake"]:
        assert os.path.exists(os.path.join("root/usr", path)), path
    own = os.path.join("root/usr/bin/ebb")
    told = subprocess.run([own, "--version"], capture_output=True, text=True, check=True).stdout
    assert told == ebb("--version").out
    subprocess.run([own, "data", "grammar", "t.txt", "--lines", "50", "--quiet"], check=True)
    subprocess.run([own, "train", "lm", "--train", "t.txt", "--hidden", "8", "--layers", "1", "--steps", "3", "--out", "run", "--quiet"], check=True)


main(globals())
