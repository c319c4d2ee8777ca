"""Options: help, suggestions, strict values, config files and their round trip."""
import os
import re

from ebbtest import TINY, ebb, main, refused, text, write

TRAIN = """train valid tokens vocab cell layers hidden embed tie dropout batch shards bptt optimizer lr
    momentum beta1 beta2 eps weight-decay clip schedule warmup lr-patience lr-factor epochs steps patience out
    tensorboard init fresh save-every log-every seed memory threads disable dump-after config json quiet verbose
    help""".split()
TRAIN_NMT = sorted(set(TRAIN) - {"layers", "bptt"}) + """train-target valid-target max-len src-vocab tgt-vocab enc-layers dec-layers
    attention feed layer-norm tie-src smoothing valid-metric samples bucket shapes static""".split()
OF = {
    "train lm": TRAIN + ["batch-tokens", "codes"],
    "plan lm": TRAIN,
    "bench lm": """cell layers hidden embed vocab batch shards bptt dropout tie optimizer clip threads seed
        memory steps lr json disable dump-after config""".split(),
    "train nmt": TRAIN_NMT + ["batch-tokens", "codes", "codes-apart"],
    "plan nmt": TRAIN_NMT + ["src-len", "tgt-len", "explain"],
    "bench nmt": """cell enc-layers dec-layers hidden embed vocab src-vocab tgt-vocab batch shards src-len tgt-len attention feed layer-norm
        dropout smoothing tie tie-src optimizer clip threads seed memory steps lr json disable dump-after config profile""".split(),
    "eval lm": ["batch", "shards", "memory", "threads", "json"],
    "generate": ["length", "temperature", "top-k", "top-p", "stop-at-eos", "prompt", "seed"],
    "inspect": ["json"],
    "data grammar": ["lines", "seed"],
    "data codes": ["codes", "ids"],
}


def test_help_lists_every_option():
    overview = ebb("--help").out
    for command, options in OF.items():
        assert f"ebb {command}" in overview
        shown = ebb(*command.split(), "--help").out
        assert shown == ebb("help", *command.split()).out
        listed = re.findall(r"^  --([a-z0-9-]+)", shown, re.M)
        assert set(options) <= set(listed), (command, set(options) - set(listed))
        assert len(listed) == len(set(listed))
        assert max(map(len, shown.splitlines())) <= 80
    for command in set(re.findall(r"^  ebb ([a-z]+(?: [a-z]+)?) ", overview, re.M)) - {"help"}:
        assert max(map(len, ebb(*command.split(), "--help").out.splitlines())) <= 80, command
    assert re.search(r"--hidden N +units of a layer \(default 200\)", ebb("train", "lm", "--help").out)
    assert ebb("help", "train").out == ebb("train", "--help").out
    assert "ebb train lm" in ebb("help", "train").out and "ebb train nmt" in ebb("help", "train").out
    assert "even number (default 512)" in " ".join(ebb("help", "train", "nmt").out.split())
    refused(2, "help", "train", "xyz", says="xyz")


def test_no_arguments_and_version():
    bare = ebb(expect=2)
    assert bare.out == "" and "usage:" in bare.err
    assert re.match(r"ebb \d+\.\d+\.\d+\n.+\n$", ebb("--version").out)
    refused(2, "trian", says="train")
    refused(2, "train", says="lm, nmt or cnn")
    refused(2, "train", "llm", says="lm")
    refused(2, "eval", "lm", "somewhere", says="ebb eval lm DIR FILE")
    refused(2, "inspect", "a", "b", says="'b'")


def test_unknown_option_names_the_nearest():
    for wrong, right in [("hiden", "hidden"), ("bacth", "batch"), ("mem", "memory"), ("droput", "dropout"),
                         ("learning-rate", None), ("x" * 500, None)]:
        line = refused(2, "train", "lm", "--" + wrong, "1", says="did you mean --")
        assert right is None or f"did you mean --{right}?" in line, line
    refused(2, "bench", "lm", "--valid", "x", says="takes no --valid")
    refused(2, "bench", "lm", "-v", says="-v")
    refused(2, "bench", "lm", "--cell", "ltsm", says="lstm")
    refused(2, "bench", "lm", "--hidden", says="needs a value")
    refused(2, "bench", "lm", "--tie=yes", says="takes no value")
    refused(2, "train", "lm", says="--train FILE")
    refused(2, "train", "nmt", says="--train SRC TGT")
    refused(2, "bench", "nmt", "--layers", "2", says="takes no --layers")
    refused(2, "bench", "lm", "--feed", says="takes no --feed")
    refused(2, "bench", "nmt", "--fed", says="did you mean --feed?")
    refused(2, "bench", "nmt", "--cell", "rnn", says="lstm")
    refused(2, "bench", "mnt", says=["mnt", "nmt"])


def test_numbers_are_strict():
    for bad in ["0", "-1", "1.5", "", " 7", "7 ", "+7", "0x10", "1e3", "seven", "99999999999999999999", "9223372036854775807"]:
        refused(2, "plan", "lm", "--hidden=" + bad, says="--hidden")
        refused(2, "plan", "lm", "--vocab", bad, says="--vocab")
    for bad in ["nan", "NaN", "inf", "-inf", "1e999", "0", "-1", "", "1,5", "1x", " 1", "--tie"]:
        refused(2, "plan", "lm", "--lr=" + bad, says="--lr")
    for bad in ["1", "-0.1", "nan", "2"]:
        refused(2, "plan", "lm", "--dropout", bad, says="--dropout")
    for bad in ["-1", "18446744073709551616", "1.0", "x"]:
        refused(2, "bench", "lm", "--seed=" + bad, says="--seed")


def budget(size):
    return ebb("plan", "lm", *TINY, "--vocab", "30", "--json", "--memory", size).json()["budget_bytes"]


def test_sizes():
    for size, bytes_ in [("512M", 512 << 20), ("2G", 2 << 30), ("1.5G", 3 << 29), ("800K", 800 << 10), ("1t", 1 << 40),
                         ("3000000", 3000000), ("9007199254740993", 9007199254740993)]:
        assert budget(size) == bytes_, size
    for size, bytes_ in [("64MiB", 64 << 20), ("64.0 MiB", 64 << 20), ("1.5GiB", 3 << 29), ("800 KiB", 800 << 10), ("1tib", 1 << 40)]:
        assert budget(size) == bytes_, size
    assert 0 < budget("40%") < budget("80%") < budget("100%")
    assert 0 < budget("auto")
    for bad in ["2 GB", "2GB", "2 G", "2 M iB", "2Mi", "2iB", "2 BiB", "5e%", "1e3%", "0x5%", "2 %", "0", "0M", "0.1", "-1", "-5M", "nan", "inf", "", "M", "1.2.3G", "101%", "0%", "-3%",
                "99999999999999999999999", "9999999999999T", "1e9", "0x10", "lots"]:
        refused(2, "plan", "lm", "--memory=" + bad, says=["--memory", "2G"])


def test_absurd_sizes_are_refused():
    for options in [["--layers", "256", "--bptt", "65536"], ["--batch", "1000000", "--bptt", "65536"],
                    ["--hidden", "2147483648"], ["--vocab", "4294967296"], ["--batch", "18446744073709551617"],
                    ["--hidden", "100000", "--vocab", "100000000", "--batch", "1000000"]]:
        refused(2, "plan", "lm", *options)
        refused(2, "bench", "lm", *options)
    refused(4, "bench", "lm", "--layers", "1", "--bptt", "2", "--hidden", "100000", "--embed", "8", "--memory", "1G", says="least")
    refused(2, "bench", "lm", "--steps", "1000000000000")
    refused(2, "plan", "lm", "--tie", "--embed", "100", says=["--tie", "100", "200"])
    for command in ["plan", "train", "bench"]:
        refused(2, command, "lm", "--shards", "3", says=["--shards 3", "--batch 20", "nearest that it divides is --batch 21"])
        refused(2, command, "cnn", "--shards", "5", "--batch", "17", says=["--shards 5", "--batch 17", "--batch 15"])
        refused(2, command, "cnn", "--shards", "9", "--batch", "2", says=["--shards 9", "--batch 2", "--batch 9"])
        refused(2, command, "nmt", "--shards", "5", says=["--shards 5", "--batch 64"])


def test_passes():
    refused(2, "plan", "lm", "--disable", "chunck", says=["chunck", "chunk"])
    refused(2, "plan", "lm", "--disable=place", says=["place", "required"])
    refused(2, "plan", "lm", "--dump-after", "plaec", says="place")
    shown = ebb("plan", "lm", *TINY, "--vocab", "30", "--dump-after=grad", "--dump-after", "select")
    assert "# after grad\n" in shown.out and "# after select\n" in shown.out and "# after place" not in shown.out
    with_json = ebb("plan", "lm", *TINY, "--vocab", "30", "--dump-after=grad", "--json")
    assert with_json.json()["nodes"] > 0 and "# after grad" in with_json.err


def config_of(folder):
    with open(folder + "/config", encoding="utf8") as file:
        return dict(line.rstrip("\n").split(" = ", 1) for line in file)


def test_config_round_trip():
    name = text("a # \"b\" \\ none ")
    args = ["--train", name, "--valid", name, "--vocab", "25", "--tie", "--dropout", "0.1", "--lr", "0.30000000000000004", "--eps", "1e-300",
            "--beta2", "0.99900000000000011", "--seed", "18446744073709551615", "--memory", "1.5G", "--steps", "3", "--optimizer", "adamw",
            "--schedule", "warmup", "--disable", "layout", "--disable", "chunk", "--clip", "none", "--quiet"]
    ebb("train", "lm", *TINY, *args, "--out", "first")
    first = config_of("first")
    assert first["lr"] == "0.30000000000000004" and first["eps"] == "1e-300" and first["beta2"] == "0.9990000000000001"
    assert first["seed"] == "18446744073709551615" and first["memory"] == str(3 << 29) and first["tie"] == "true"
    assert first["disable"] == "chunk,layout" and first["clip"] == "none" and first["embed"] == "8" and first["epochs"] == "none"
    settings = set(TRAIN) - {"fresh", "dump-after", "config", "json", "quiet", "verbose", "help"}
    assert set(first) == settings, set(first) ^ settings
    ebb("train", "lm", "--config", "first/config", "--out", "second", "--quiet")
    second = config_of("second")
    assert second.pop("out") == "second" and first.pop("out") == "first"
    assert first == second
    ebb("train", "lm", "--config=first/config", "--quiet")


def test_a_run_goes_on_from_another_folder():
    """`--config` of a run from elsewhere is the same run: its paths start where it was started."""
    text("t", 40)
    os.makedirs("elsewhere")
    for out in ["run", "./runs/a/", os.path.abspath("absolute"), "elsewhere/../dotted"]:
        ebb("train", "lm", *TINY, "--train", "t", "--vocab", "25", "--steps", "2", "--out", out, "--quiet")
        config = os.path.abspath(out + "/config")
        assert "nothing to do" in ebb("train", "lm", "--config", config, cwd="elsewhere").err
        ebb("train", "lm", "--config", config, "--steps", "4", "--quiet", cwd="elsewhere")
        assert ebb("train", "lm", "--config", out + "/config", "--json", "--quiet").json()["steps"] == 4
        assert os.listdir("elsewhere") == [], out
    ebb("train", "lm", "--config", "../run/config", "--out", "mine", "--quiet", cwd="elsewhere")
    assert os.listdir("elsewhere") == ["mine"] and config_of("elsewhere/mine")["train"] == os.path.abspath("t")


def test_a_config_by_hand_starts_here():
    text("t", 40)
    os.makedirs("deep/run")
    write("deep/by-hand", "train = t\nout = run\nsteps = 1\nhidden = 8\nlayers = 1\n")
    ebb("train", "lm", "--config", "deep/by-hand", "--quiet")
    assert os.path.exists("run/config") and os.listdir("deep/run") == []


def test_texts_that_are_not_there_leave_no_folder():
    refused(3, "train", "lm", "--train", "gone", "--out", "run", says="gone")
    refused(3, "train", "lm", "--train", text("t"), "--valid", "gone", "--out", "run", says="gone")
    refused(3, "train", "nmt", "--train", "t", "gone", "--out", "run", says="gone")
    assert os.listdir() == ["t"]


def use(folder, model, texts):
    """Everything that reads the config of a run again."""
    if model == "lm":
        ebb("eval", "lm", folder, *texts, "--json")
        assert ebb("generate", folder, "--length", "3").out
    else:
        ebb("eval", "nmt", folder, *texts, "--json")
        with open(texts[0], "rb") as lines:
            assert ebb("decode", folder, stdin=lines, expect=0).out.count("\n") == 20
    ebb("report", folder, "page.html", "--quiet")
    with open("page.html", encoding="utf8") as page:
        assert page.read().count("<svg") >= 3
    ebb("train", model, "--config", folder + "/config", "--quiet")
    ebb("train", model, "--config", folder + "/config", "--out", "again", "--fresh", "--quiet")


def test_runs_with_every_form_of_memory_can_be_used():
    name = text("t", 20)
    for size, stored in [("67108864", "67108864"), ("65536K", "67108864"), ("64M", "67108864"), ("1.5G", str(3 << 29)),
                         ("64MiB", "67108864"), ("64.0 MiB", "67108864"), ("auto", "auto"), ("10%", "10%"), ("60%", "60%"),
                         ("100%", "100%"), ("33.3%", "33.3%"), ("50.50%", "50.5%")]:
        ebb("train", "lm", *TINY, "--train", name, "--vocab", "25", "--steps", "1", "--memory", size, "--out", "lm", "--fresh", "--quiet")
        assert config_of("lm")["memory"] == stored, size
        use("lm", "lm", [name])
    for size in ["60%", "auto", "64MiB"]:
        ebb("train", "nmt", "--hidden", "8", "--batch", "4", "--train", name, name, "--steps", "1", "--memory", size, "--out", "nmt", "--fresh", "--quiet")
        use("nmt", "nmt", [name, name])


def test_command_line_wins_over_config():
    write("c", "# a comment\n\n hidden = 16   # and another\nvocab=50\ntie = true\nlayers = 1\r\ndisable = layout\nbatch = 2\nbptt = 3\nmemory = 50%\n")
    plain = ["--layers", "1", "--batch", "2", "--bptt", "3"]

    def size(*args):
        return ebb("plan", "lm", "--json", *args).json()["bytes_by_kind"]["weights"]

    assert size("--config", "c") == size(*plain, "--hidden", "16", "--vocab", "50", "--tie")
    assert size("--hidden", "24", "--config", "c") == size("--config", "c", "--hidden", "24") == size(*plain, "--hidden", "24", "--vocab", "50", "--tie")
    assert size("--config", "c", "--no-tie") == size(*plain, "--hidden", "16", "--vocab", "50")
    assert size("--hidden", "3", "--hidden", "24", "--config", "c") == size("--config", "c", "--hidden", "24")


def test_config_errors_name_file_and_line():
    for body, says in [("hiden = 3", ["c:1:", "hidden"]), ("\n\nlr = nan\n", ["c:3: lr", "nan"]), ("layers 2", ["c:1:", "key = value"]),
                       ("train = \"x", ["c:1:", "quotes"]), ("tie = maybe", ["c:1: tie", "maybe"]), ("config = c", ["c:1:"]),
                       ("layers =", ["c:1: layers"]), ("layers = 1\0", ["c:"]), ("disable = grad", ["c:1: disable", "required"]),
                       ("seed = 1\nmemory = 2 GB", ["c:2: memory", "2 GB"])]:
        write("c", body)
        refused(2, "plan", "lm", "--config", "c", says=says)
    refused(7, "plan", "lm", "--config", "absent", says="absent")


def test_learning_rate_depends_on_the_optimiser():
    for optimizer, lr in [("sgd", "1"), ("adam", "0.001"), ("adamw", "0.001")]:
        ebb("train", "lm", *TINY, "--train", text("t"), "--steps", "1", "--optimizer", optimizer, "--out", optimizer, "--quiet")
        assert config_of(optimizer)["lr"] == lr


def test_learning_rates_are_those_of_the_help():
    for kind, options, lr in [("lm", [], "1"), ("nmt", [], "0.001"), ("nmt", ["--optimizer", "sgd"], "1"), ("cnn", [], "0.05"),
                              ("cnn", ["--momentum", "0.9"], "0.01"), ("cnn", ["--optimizer", "adamw"], "0.001")]:
        small = ["--net", "lenet", "--batch", "2"] if kind == "cnn" else ["--hidden", "8", "--vocab", "20", "--batch", "2"]
        bench = ["bench", kind, *small, *options, "--steps", "1", "--threads", "1", "--json"]
        assert f"{lr}" in ebb("help", "bench", kind).out
        assert ebb(*bench).json()["weights_hash"] == ebb(*bench, "--lr", lr).json()["weights_hash"], (kind, options)


main(globals())
