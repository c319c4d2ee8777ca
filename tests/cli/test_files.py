"""Files of others: links, pipes and foreign files in the way are refused and never touched; nothing is left behind."""
import json
import os
import shutil
import signal
import time

from ebbtest import TINY, ebb, main, photos, refused, start, text, wait_for_step, write

RUN = ["train", "lm", *TINY, "--train", "t", "--steps", "6", "--quiet"]
VICTIM = "a letter\n"


def put(kind, path):
    """Something that is no regular file; links lead to a victim."""
    if kind == "pipe":
        os.mkfifo(path)
    else:
        os.symlink(os.path.abspath("victim" if kind == "link" else "nowhere"), path)


def unharmed():
    assert open("victim", encoding="utf8").read() == VICTIM and not os.path.lexists("nowhere")


def test_what_a_run_writes_never_follows_and_never_waits():
    text("t")
    write("victim", VICTIM)
    ebb(*RUN, "--out", "model")
    names = [name for name in os.listdir("model") if name not in ("vocab.txt", "last.safetensors", "best.safetensors") and not name.startswith("ckpt")]
    assert {"config", "metrics.jsonl", "lock", "train.tokens"} <= set(names)
    for number, (name, kind) in enumerate((name, kind) for name in names for kind in ("link", "dangling", "pipe")):
        out = "out%d" % number
        ebb(*RUN, "--out", out)
        os.remove(f"{out}/{name}")
        put(kind, f"{out}/{name}")
        refused(7, *RUN, "--fresh", "--out", out, says=[name, "not a regular file"])
        unharmed()


def test_renamed_files_replace_links_themselves():
    text("t")
    write("victim", VICTIM)
    ebb(*RUN, "--out", "model")
    for name in ("vocab.txt", "last.safetensors", "best.safetensors"):
        os.remove("model/" + name)
        put("link", "model/" + name)
    ebb(*RUN, "--fresh", "--out", "model")
    assert not os.path.islink("model/vocab.txt") and not os.path.islink("model/last.safetensors")
    unharmed()


def test_names_of_files_beside_cannot_be_guessed():
    """What used to be opened, followed and emptied."""
    text("t")
    write("victim", VICTIM)
    os.mkdir("out")
    for name in ("config.tmp", "ckpt-6.safetensors.tmp", "vocab.new.tmp"):
        put("link", "out/" + name)
    put("pipe", "out/metrics.jsonl.tmp")
    put("pipe", "out/ckpt-6.json.tmp")
    ebb(*RUN, "--out", "out")
    ebb("data", "grammar", "g", "--lines", "2")
    put("pipe", "g.tmp")
    ebb("data", "grammar", "g", "--lines", "3")
    assert len(open("g", encoding="utf8").read().splitlines()) == 3
    unharmed()


def test_readers_do_not_wait_for_a_pipe():
    text("t")
    ebb(*RUN, "--valid", "t", "--out", "model")
    for name in ("config", "vocab.txt", "best.safetensors"):
        os.rename("model/" + name, "kept")
        put("pipe", "model/" + name)
        refused(7, "eval", "lm", "model", "t", "--quiet", says=[name, "not a regular file"])
        os.replace("kept", "model/" + name)
    ebb("eval", "lm", "model", "t", "--quiet")


def unnamed_file_of(process, folder):
    """Whether the process holds a file without a name in the folder."""
    try:
        held = [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")]
    except OSError:
        return False
    return any(name.startswith(os.path.realpath(folder) + "/") and name.endswith("(deleted)") for name in held)


def test_a_killed_eval_leaves_nothing():
    text("t")
    text("long", 20000, seed=3)
    kills = 0
    for number, more in enumerate([[], ["--by-sentence"]]):
        out = "model%d" % number
        ebb(*RUN, *more, "--out", out)
        before = sorted(os.listdir(out))
        process = start("eval", "lm", out, "long")
        end = time.time() + 100
        while process.poll() is None and not unnamed_file_of(process, out) and time.time() < end:
            assert sorted(os.listdir(out)) == before
        assert sorted(os.listdir(out)) == before
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        process.stderr.close()
        assert sorted(os.listdir(out)) == before
    assert kills > 0


def test_left_overs_of_killed_writers_go():
    text("t")
    ebb(*RUN, "--out", "model")
    before = sorted(os.listdir("model"))
    for name in ("config", "ckpt-99.safetensors", "metrics.jsonl"):
        write(f"model/{name}.ebb-0123456789ab.tmp", "half")
    write("g.ebb-0123456789ab.tmp", "half")
    ebb(*RUN, "--fresh", "--out", "model")
    ebb("data", "grammar", "g", "--lines", "3")
    assert sorted(os.listdir("model")) == before
    assert sorted(os.listdir(".")) == ["g", "model", "t"]


def test_files_that_are_not_ours_stay():
    text("t")
    for name in ("vocab.txt", "config", "best.safetensors", "metrics.jsonl", "train.tokens", "ckpt-3.safetensors"):
        os.mkdir("out")
        write("out/" + name, VICTIM)
        for command in ([*RUN, "--out", "out"], [*RUN, "--out", "out", "--fresh"], ["data", "build", "--lm", "t", "--out", "out"],
                        [*RUN, "--out", "out", "--batch", "auto"]):
            refused(2, *command, says=["out/" + name, "--out"])
        assert os.listdir("out") == [name] and open("out/" + name, encoding="utf8").read() == VICTIM
        os.remove("out/" + name)
        write("out/notes.txt", VICTIM)
        ebb(*RUN, "--out", "out")
        assert open("out/notes.txt", encoding="utf8").read() == VICTIM
        os.remove("out/lock")  # what is there is known by its checkpoints too
        ebb(*RUN, "--fresh", "--out", "out")
        shutil.rmtree("out")


def test_a_folder_removed_under_a_run_is_an_error():
    text("t")
    slow = ["train", "lm", *TINY, "--train", "t", "--steps", "1000000", "--save-every", "20", "--quiet", "--out", "out"]
    for harm in (lambda: shutil.rmtree("out"), lambda: os.rename("out", "away"), lambda: os.remove("out/metrics.jsonl")):
        process = start(*slow)
        wait_for_step(process, "out", 20)
        harm_until_done(harm)
        err = process.communicate(timeout=200)[1]
        assert process.returncode == 7 and len(err.splitlines()) == 1 and "out" in err, (process.returncode, err)
        for name in ("out", "away"):
            shutil.rmtree(name, ignore_errors=True)


def harm_until_done(harm):
    """A run that saves may put a file into a folder while it is removed."""
    for _ in range(1000):
        try:
            return harm()
        except OSError as error:
            last = error
    raise last


def test_removing_the_lock_lets_nobody_in():
    text("t")
    slow = ["train", "lm", *TINY, "--train", "t", "--steps", "1000000", "--save-every", "20", "--quiet", "--out", "out"]
    process = start(*slow)
    wait_for_step(process, "out", 20)
    os.remove("out/lock")
    refused(2, *slow, says="in use by another process")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=200)
    assert process.returncode == 75


def bytes_in(folder):
    with open(folder + "/metrics.jsonl", encoding="utf8") as file:
        return [json.loads(line)["memory_bytes"] for line in file]


def test_memory_is_measured_alike_after_a_resume():
    """Batches of short sentences take less: a resumed run has not seen the long ones yet, but the run has."""
    write("t", "".join("a " * (1 + n % 40) + "\n" for n in range(400)))
    run = ["train", "lm", *TINY, "--train", "t", "--by-sentence", "--shapes", "4", "--memory", "64M", "--log-every", "1", "--quiet"]
    ebb(*run, "--steps", "60", "--out", "whole")
    whole = bytes_in("whole")
    assert len(set(whole)) > 1
    for steps in range(10, 61, 10):
        ebb(*run, "--steps", steps, "--out", "broken")
    assert bytes_in("broken") == whole


def test_own_files_of_a_user_stay():
    """In a folder where no run ever was, whatever a run would write over is somebody's."""
    text("t", 60)
    photos("images", 4, 1)
    net = write("own.net", "input 3 8 8\nconv 2 3 pad 1\nrelu\nflatten\nfc 3\n")
    kinds = {"lm": ["--train", "t", "--valid", "t", "--tokens", "bpe", "--codes", "10", "--hidden", "8", "--layers", "1", "--batch", "2", "--bptt", "5"],
             "cnn": ["--train", "images", "--valid", "images", "--net", net, "--batch", "4"]}
    for kind, options in kinds.items():
        command = ["train", kind, *options, "--steps", "3", "--save-every", "1", "--keep", "2", "--threads", "1", "--memory", "64M", "--quiet"]
        ebb(*command, "--out", kind)
        for name in sorted(os.listdir(kind)):
            if name == "lock":
                continue
            shutil.rmtree("own", ignore_errors=True)
            os.mkdir("own")
            write(f"own/{name}", "mine")
            refused(5 if name.endswith(".json") and name.startswith("ckpt-") else 2, *command, "--out", "own", says=name)
            with open(f"own/{name}", encoding="utf8") as file:
                assert file.read() == "mine" and set(os.listdir("own")) <= {name, "lock"}, os.listdir("own")


if __name__ == "__main__":
    main(globals())
