"""What a run may change on its way (--override), and validation every so many steps (--valid-every)."""
import glob
import json
import os
import signal
import time

from ebbtest import TINY, digest, ebb, main, metrics, pairs, refused, start, text, train_command, train_texts, wait_for_step, weights


def overrides(out):
    newest = max(glob.glob(out + "/ckpt-*.json"), key=lambda path: int(path.split("-")[-1].split(".")[0]))
    with open(newest, encoding="utf8") as file:
        return json.load(file)["train"].get("overrides")


def test_validation_every_so_many_steps():
    train_texts()
    ebb(*train_command(100, "run", "--valid-every", "15"))
    seen = [line for line in metrics("run") if "valid_perplexity" in line]
    assert [line["step"] for line in seen] == [15, 30, 45, 60, 75, 90, 100], seen
    best = min(line["valid_perplexity"] for line in seen)
    assert abs(ebb("eval", "lm", "run", "v", "--json").json()["token_perplexity"] - best) < 1e-6 * best
    assert "finished" in ebb(*train_command(100, "run", "--valid-every", "15")).err
    refused(2, *train_command(120, "run"), says=["valid-every"])
    refused(2, *train_command(120, "other", "--valid-every", "0"), says="--valid-every")
    ebb(*train_command(100, "usual"))
    assert digest("usual/last.safetensors") == digest("run/last.safetensors")  # looking changes nothing
    plateau = ["--schedule", "plateau", "--lr-patience", "1", "--valid-every", "4", "--lr", "0.05"]
    ebb(*train_command(120, "falls", *plateau))
    assert metrics("falls")[-1]["lr"] < 0.05
    # Patience counts validations.
    result = ebb(*train_command(2000, "ends", "--patience", "2", "--valid-every", "5", "--lr", "0.1", "--json", "--quiet")).json()
    assert result["stopped_early"] and result["steps"] % 5 == 0


def test_killed_and_resumed_with_validations_in_between():
    train_texts()
    more = ["--valid-every", "11", "--schedule", "plateau", "--lr", "0.05"]
    ebb(*train_command(200, "whole", *more))
    kills = 0
    for step in [1, 11, 23, 77, 120, 170]:
        process = start(*train_command(200, "broken", *more))
        wait_for_step(process, "broken", step)
        time.sleep(0.003 * kills)
        process.kill()
        kills += process.wait() == -signal.SIGKILL
    assert kills >= 3
    ebb(*train_command(200, "broken", *more))
    assert weights("whole") == weights("broken") and metrics("whole") == metrics("broken")


def test_translation_models_too():
    pairs("t")
    pairs("v", 11, seed=2)
    run = ["train", "nmt", "--hidden", "8", "--batch", "4", "--threads", "1", "--train", "t.src", "t.tgt", "--valid", "v.src", "v.tgt",
           "--valid-metric", "bleu", "--valid-every", "9", "--steps", "30", "--log-every", "100", "--quiet", "--out"]
    ebb(*run, "run")
    assert [line["step"] for line in metrics("run") if "valid_bleu" in line] == [9, 18, 27, 30]
    ebb(*run, "plain", "--valid-every", "1000")
    assert digest("plain/last.safetensors") == digest("run/last.safetensors")


def test_override():
    train_texts()
    ebb(*train_command(40, "run", "--lr", "0.01"))
    refused(2, *train_command(80, "run", "--lr", "0.001"), says=["lr = 0.01", "lr = 0.001"])
    change = ["--lr", "0.01", "--override", "lr=0.001", "--override", "dropout=0.1,clip=2"]
    ebb(*train_command(80, "run", *change))
    assert overrides("run") == [[40, "dropout = 0.2", "dropout = 0.1"], [40, "lr = 0.01", "lr = 0.001"], [40, "clip = 5", "clip = 2"]], overrides("run")
    lines = metrics("run")
    assert [line["lr"] for line in lines if line["step"] <= 40] == [0.01] * 4 and {line["lr"] for line in lines if line["step"] > 40} == {0.001}
    config = open("run/config", encoding="utf8").read()
    assert "lr = 0.001\n" in config and "dropout = 0.1\n" in config and "override" not in config
    # The same command goes on, as does one that says the new values.
    ebb(*train_command(100, "run", *change))
    ebb(*train_command(120, "run", "--lr", "0.001", "--dropout", "0.1", "--clip", "2"))
    assert len(overrides("run")) == 3
    refused(2, *train_command(140, "run", "--lr", "0.01", "--dropout", "0.1", "--clip", "2"), says=["lr = 0.001", "lr = 0.01"])
    ebb(*train_command(40, "again", "--lr", "0.01"))
    ebb(*train_command(120, "again", *change))
    assert weights("again") == weights("run")


def test_override_of_a_schedule_and_a_kill():
    train_texts()
    ebb(*train_command(60, "start"))
    os.rename("start", "broken")
    ebb(*train_command(60, "whole"))
    change = ["--override", "schedule=inverse", "--override", "lr=0.02"]
    ebb(*train_command(300, "whole", *change))
    for step in [61, 90, 150]:
        process = start(*train_command(300, "broken", *change))
        wait_for_step(process, "broken", step)
        process.kill()
        process.wait()
    ebb(*train_command(300, "broken", *change))
    assert weights("whole") == weights("broken") and metrics("whole") == metrics("broken") and overrides("whole") == overrides("broken")
    assert [item[0] for item in overrides("whole")] == [60, 60, 60]


def test_override_refuses():
    train_texts()
    ebb(*train_command(10, "run"))
    refused(2, *train_command(20, "run", "--override", "hidden=9"), says=["--override hidden", "--help"])
    refused(2, *train_command(20, "run", "--override", "lr"), says="KEY=VALUE")
    refused(2, *train_command(20, "run", "--override", "lr=-1"), says=["--override lr", "-1"])
    refused(2, *train_command(20, "run", "--override", "smoothing=0.1"), says="--override smoothing")
    refused(2, *train_command(20, "run", "--override", "lr=0.1", "--hidden", "9"), says=["hidden = 8", "hidden = 9"])


if __name__ == "__main__":
    main(globals())
