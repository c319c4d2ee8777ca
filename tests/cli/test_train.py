"""A run's life: killed, stopped, resumed, finished, locked, started over; always the same bits."""
import os
import signal
import time

from ebbtest import TINY, digest, ebb, main, metrics, refused, start, text, train_command, train_texts, wait_for_step, weights, write


def test_a_run_leaves_what_it_promises():
    train_texts()
    run = ebb(*train_command(60, "run"))
    assert {"metrics.jsonl", "best.safetensors", "last.safetensors", "vocab.txt", "config"} <= set(os.listdir("run"))
    assert "\r" not in run.err and "least budget" in run.err and "step 60/60" in run.err and run.out == ""
    lines = metrics("run")
    assert [set(line) >= {"step", "epoch", "loss", "lr"} for line in lines] == [True] * len(lines)
    assert [line["step"] for line in lines] == sorted({line["step"] for line in lines}) and lines[-1]["step"] == 60
    assert any("valid_perplexity" in line for line in lines)
    result = ebb(*train_command(60, "other", "--json", "--quiet"))
    assert result.err == "" and result.json()["steps"] == 60
    assert result.json()["planned_peak_bytes"] == result.json()["measured_peak_bytes"]
    assert weights("run") == weights("other")


def test_finished_run_changes_nothing():
    train_texts()
    ebb(*train_command(30, "run"))
    before = {name: (digest("run/" + name), os.stat("run/" + name).st_mtime_ns) for name in os.listdir("run") if name != "lock"}
    again = ebb(*train_command(30, "run"))
    assert "finished" in again.err
    after = {name: (digest("run/" + name), os.stat("run/" + name).st_mtime_ns) for name in os.listdir("run") if name != "lock"}
    changed = [name for name in before if before[name][0] != after.get(name, (0,))[0]]
    assert not changed and set(before) == set(after), changed
    assert all(before[name] == after[name] for name in before if name.endswith(".safetensors"))


def test_killed_at_any_moment():
    train_texts()
    ebb(*train_command(200, "whole"))
    kills = 0
    for step in [1, 30, 31, 77, 120, 170]:
        process = start(*train_command(200, "broken"))
        wait_for_step(process, "broken", step)
        time.sleep(0.003 * kills)
        process.kill()
        kills += process.wait() == -signal.SIGKILL
    assert kills >= 3
    ebb(*train_command(200, "broken"))
    assert weights("whole") == weights("broken") and metrics("whole") == metrics("broken")


def test_stopped_politely():
    train_texts()
    for number, step in [(signal.SIGTERM, 20), (signal.SIGINT, 200)]:
        process = start(*train_command(400, "broken"))
        wait_for_step(process, "broken", step)
        process.send_signal(number)
        err = process.communicate()[1]
        assert process.returncode == 75, (process.returncode, err)
        assert err.splitlines()[-1].startswith("ebb: ") and "the same command" in err.splitlines()[-1]
    ebb(*train_command(400, "broken"))
    ebb(*train_command(400, "whole"))
    assert weights("whole") == weights("broken") and metrics("whole") == metrics("broken")


def test_what_may_change_and_what_may_not():
    train_texts()
    ebb(*train_command(20, "run"))
    line = refused(2, *train_command(40, "run", "--hidden", "12"), says=["8", "12", "hidden"])
    assert "--fresh" in line
    refused(2, *train_command(40, "run", "--seed", "2"), says="seed")
    ebb(*train_command(40, "run", "--threads", "2", "--memory", "64M", "--disable", "layout", "--save-every", "3"))
    ebb(*train_command(40, "whole"))
    assert weights("run") == weights("whole")


def test_state_is_carried_from_window_to_window():
    train_texts()
    ebb(*train_command(60, "run", "--lr", "0.05"))
    with open("run/config", encoding="utf8") as file:
        config = file.read()
    losses = []
    for bptt in [1, 2, 3, 4, 5, 7, 11, 16]:
        write("run/config", config.replace("bptt = 5\n", f"bptt = {bptt}\n"))
        losses.append(ebb("eval", "lm", "run", "v", "--batch", "1", "--json").json()["loss"])
    assert max(losses) - min(losses) < 1e-5 * min(losses), losses


def test_fresh_starts_over():
    train_texts()
    ebb(*train_command(20, "run"))
    ebb(*train_command(10, "run", "--seed", "2", "--fresh"))
    ebb(*train_command(10, "other", "--seed", "2"))
    assert weights("run") == weights("other") and metrics("run") == metrics("other")


def test_locked_folder():
    train_texts()
    process = start(*train_command(1000000, "run"))
    try:
        wait_for_step(process, "run", 7)
        refused(2, *train_command(1000000, "run", "--quiet"), says="run")
    finally:
        process.terminate()
        err = process.communicate()[1]
    assert process.returncode == 75, err


def test_fresh_keeps_the_old_run_until_the_new_one_can_start():
    train_texts()
    ebb(*train_command(20, "run", "--quiet"))
    before = weights("run"), digest("run/vocab.txt"), digest("run/config")
    swapped = train_command(20, "run", "--fresh", "--quiet")
    swapped[swapped.index("--valid") + 1] = "missing"
    refused(3, *swapped, says="missing")
    refused(7, *train_command(20, "run", "--fresh", "--quiet", "--init", "nothere"), says="nothere")
    refused(4, *train_command(20, "run", "--fresh", "--quiet", "--memory", "1000"), says="least")
    assert before == (weights("run"), digest("run/vocab.txt"), digest("run/config"))
    ebb(*train_command(20, "run", "--quiet"))  # still finished
    assert before[0] == weights("run")


def test_best_belongs_to_its_validation_text():
    train_texts()
    ebb(*train_command(60, "run", "--quiet"))
    best = digest("run/best.safetensors")
    without = train_command(90, "run", "--quiet")
    at = without.index("--valid")
    del without[at:at + 2]
    ebb(*without)
    assert digest("run/best.safetensors") == best and digest("run/last.safetensors") != best
    other = train_command(95, "run", "--quiet")
    other[other.index("--valid") + 1] = text("other", 30, seed=9)
    refused(2, *other, says=["other", "validated"])


def test_patience_ends_the_run():
    train_texts()
    # Too little to learn from: only the first validation improves.
    stale = [*train_command(100000, "whole"), "--lr", "1e-30", "--patience", "3"]
    run = ebb(*stale)
    assert "no improvement in 3 validations" in run.err.splitlines() and run.err.splitlines()[-1].startswith("done: ")
    epochs = [line["epoch"] for line in metrics("whole") if "valid_perplexity" in line]
    assert epochs == [1, 2, 3, 4]
    again = ebb(*stale)
    assert "finished" in again.err and "no improvement in 3 validations" in again.err and len(again.err.splitlines()) == 1
    result = ebb(*stale, "--json", "--quiet").json()
    assert result["stopped_early"] is True and result["already_done"] is True and result["epochs"] == 4
    assert result["valid_perplexity"] > 0 and "valid_bleu" not in result
    stale[stale.index("whole")] = "broken"
    for step in [10, 400, 800]:
        process = start(*stale)
        wait_for_step(process, "broken", step)
        process.kill()
        process.wait()
    result = ebb(*stale, "--json", "--quiet").json()
    assert result["stopped_early"] is True
    assert weights("whole") == weights("broken") and metrics("whole") == metrics("broken")
    result = ebb(*stale, "--patience", "4", "--json", "--quiet").json()
    assert result["epochs"] == 5 and result["already_done"] is False
    refused(2, "train", "lm", *TINY, "--train", "t", "--patience", "2", "--out", "no", says=["--patience", "--valid"])


def test_bytes_of_a_finished_run_are_not_known():
    train_texts()
    result = ebb(*train_command(20, "run", "--json", "--quiet")).json()
    assert result["planned_peak_bytes"] == result["measured_peak_bytes"] > 0 and result["stopped_early"] is False
    result = ebb(*train_command(20, "run", "--json", "--quiet")).json()
    assert result["already_done"] is True and result["planned_peak_bytes"] is None and result["measured_peak_bytes"] is None


def test_damage_is_said_once():
    train_texts()
    for batch in ["4", "auto"]:
        ebb(*train_command(21, "run" + batch, "--quiet"))
        os.truncate("run%s/ckpt-21.state.safetensors" % batch, 100)
        again = ebb(*train_command(30, "run" + batch, "--batch", batch))
        assert again.err.count("damaged") == 1 and "going back to step 14" in again.err, again.err


def pairs(name, lines, seed):
    text(name + ".src", lines, seed)
    with open(name + ".src", encoding="utf8") as file:
        write(name + ".tgt", "".join(" ".join(reversed(line.split())).replace("w", "t") + "\n" for line in file))


def test_translations_are_shown():
    pairs("t", 100, 1)
    pairs("v", 12, 2)
    write("t.src", open("t.src").read() + "\n")
    write("t.tgt", open("t.tgt").read() + "left out\n")
    args = ["train", "nmt", "--hidden", "8", "--batch", "16", "--threads", "1", "--train", "t.src", "t.tgt", "--valid", "v.src", "v.tgt",
            "--out", "run"]
    run = ebb(*args, "--epochs", "2", "--samples", "2", "--valid-metric", "bleu", "--json")
    assert run.err.count("are empty on a side and are left out") == 1
    shown = [line.split() for line in run.err.splitlines() if line.startswith("  ") and line.split()[0] in ("source", "reference", "translation")]
    assert [line[0] for line in shown] == ["source", "reference", "translation"] * 4
    for source, reference in zip(shown[0::3], shown[1::3]):
        assert " ".join(source[1:]) in open("v.src").read()
        assert [word.replace("t", "w") for word in reference[:0:-1]] == source[1:]
    reports = [line for line in run.err.splitlines() if "valid ppl" in line]
    assert len(reports) == 2 and all("BLEU " in line and "gradient " in line for line in reports)
    said = [line["valid_bleu"] for line in metrics("run") if "valid_bleu" in line]
    assert len(said) == 2 and run.json()["valid_bleu"] == said[-1] and run.json()["best_bleu"] == max(said)
    # What is left out is said when a run starts, not whenever it goes on.
    again = ebb(*args, "--epochs", "3", "--valid-metric", "bleu")
    assert "left out" not in again.err and "  source" not in again.err and "BLEU" in again.err
    assert ebb(*args, "--epochs", "4", "--valid-metric", "bleu", "--samples", "1", "--quiet").err == ""
    refused(2, *args, "--epochs", "4", says=["valid-metric = bleu", "perplexity"])
    for option in [["--samples", "1"], ["--valid-metric", "bleu"]]:
        refused(2, *args[:args.index("--valid")], "--out", "no", *option, says=[option[0], "--valid"])


def test_schedules_go_on_in_the_middle_of_an_epoch():
    train_texts()
    for schedule in ["constant", "plateau", "warmup", "cosine", "inverse"]:
        options = ["--schedule", schedule, "--warmup", "30", "--patience", "50"]
        ebb(*train_command(450, schedule + "-whole", "--quiet", *options))
        process = start(*train_command(450, schedule, *options))
        wait_for_step(process, schedule, 30)
        process.terminate()
        process.communicate()
        process = start(*train_command(450, schedule, *options))
        wait_for_step(process, schedule, 400)
        process.kill()
        process.communicate()
        ebb(*train_command(450, schedule, "--quiet", *options))
        assert weights(schedule) == weights(schedule + "-whole") and metrics(schedule) == metrics(schedule + "-whole"), schedule


def test_starts_from_given_weights():
    train_texts()
    ebb(*train_command(10, "a", "--quiet"))
    ebb(*train_command(1, "b", "--quiet", "--init", "a/last.safetensors", "--lr", "1e-30"))
    assert digest("a/last.safetensors") == digest("b/last.safetensors")
    refused(5, *train_command(1, "c", "--quiet", "--init", "a/last.safetensors", "--hidden", "9"), says="shape")


def catches(process, number):
    """Whether the process has a handler for the signal."""
    with open(f"/proc/{process.pid}/status", encoding="utf8") as file:
        caught = next(line for line in file if line.startswith("SigCgt"))
    return int(caught.split()[1], 16) >> (number - 1) & 1


def test_a_stop_does_not_wait_for_the_text():
    """Asked while the text is read, or for --batch auto the largest batch is searched."""
    write("t", "".join(f"{i % 7} line {i * 7919 % 9000} of a long text\n" for i in range(700000)))
    for number, more in [(signal.SIGTERM, []), (signal.SIGINT, ["--batch", "auto"]), (signal.SIGTERM, ["--batch", "auto"])]:
        process = start("train", "lm", "--train", "t", "--hidden", "64", "--threads", "1", "--out", "run", *more)
        while process.poll() is None and not catches(process, number):
            time.sleep(0.001)
        process.send_signal(number)
        err = process.communicate()[1]
        assert process.returncode == 75 and "stopped while reading t, before anything was done" in err, err
        assert len(err.splitlines()) == 1, err
    assert set(os.listdir()) <= {"t", "run"} and (not os.path.exists("run") or os.listdir("run") == ["lock"])


def test_a_finished_run_knows_its_train_texts():
    train_texts()
    text("u", 200, seed=3)
    ebb(*train_command(5, "run", "--quiet"))
    before = {name: digest("run/" + name) for name in os.listdir("run")}
    for swapped, code, says in [(["--train", "v", "--valid", "t"], 2, ["v:", "started with", "--fresh"]), (["--train", "u"], 2, "u:"),
                                (["--valid", "u"], 2, ["u:", "validated on"]), (["--train", "gone"], 3, "gone"), (["--valid", "gone"], 3, "gone")]:
        refused(code, *train_command(5, "run", *swapped), says=says)
    assert before == {name: digest("run/" + name) for name in os.listdir("run")}
    assert "nothing to do" in ebb(*train_command(5, "run")).err
    text("copy", 200)
    assert ebb(*train_command(5, "run", "--train", "copy", "--json")).json()["already_done"]
    pairs = ["train", "nmt", "--hidden", "8", "--batch", "4", "--steps", "1", "--out", "pairs", "--quiet", "--train"]
    ebb(*pairs, "t", "u")
    ebb(*pairs, "t", "u")
    refused(2, *pairs, "u", "t", says="started with")


def test_weights_of_another_vocabulary_are_refused():
    """Every embedding would stand for another word. More of it: test_vocab.py."""
    first = write("first", "a b c d e f g h\n" * 50)
    other = write("other", "h h g f e d c b a\n" * 50)
    new = ["--epochs", "1", "--quiet", "--out", "new", "--fresh"]
    ebb("train", "lm", *TINY, "--train", first, "--epochs", "1", "--quiet", "--out", "lm")
    line = ["train", "lm", *TINY, *new, "--init", "lm/best.safetensors", "--train"]
    refused(2, *line, other, says=["--init lm/best.safetensors", "another vocabulary", "without --init"])
    assert not os.path.exists("new/vocab.txt")
    ebb(*line, first)
    write("alone.safetensors", open("lm/best.safetensors", "rb").read())
    refused(2, "train", "lm", *TINY, *new, "--init", "alone.safetensors", "--train", other, says="another vocabulary")
    nmt = ["train", "nmt", "--hidden", "8", "--batch", "4", "--epochs", "1", "--quiet"]
    ebb(*nmt, "--train", first, first, "--out", "nmt")
    for texts in [[first, other], [other, first]]:
        refused(2, *nmt, "--init", "nmt/best.safetensors", "--train", *texts, "--out", "new", "--fresh", says="another vocabulary")
    ebb(*nmt, "--init", "nmt/best.safetensors", "--train", first, first, "--out", "new", "--fresh")


main(globals())
