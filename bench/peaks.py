#!/usr/bin/env python3
"""Resident peaks of random commands beside their plans: training, translation, by sentence,
validation, decode, eval and generate, with 1 to 32 shards, unrollings of up to 2,000 steps, up to
32 shapes, with and without a store of 10,000 measured products. Prints every setting with what it
took above its plan, then the largest; exits 1 if one is above 32 MiB or fails. Programs of more than
50,000 nodes may be refused for what planning them takes.

    bench/peaks.py --settings 100 --seed 1        settings 0 to 99 of that seed
    bench/peaks.py --only 17                      one of them again
    bench/peaks.py --limit                        each with no more addresses than its plan + 64 MiB

Usage: bench/peaks.py [--ebb build/ebb] [--settings N] [--seed N] [--only N] [--limit]
"""
import argparse
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "cli"))
MARGIN = 64 << 20  # of addresses above the plan, with --limit


def pick(dice, **choices):
    """--name value for each, of the values given."""
    return [text for name, values in choices.items() for text in ("--" + name.replace("_", "-"), str(dice.choice(values)))]


def lm_sizes(dice):
    """A language model's sizes: long unrollings only of small ones, or a setting takes minutes."""
    bptt = dice.choice([5, 20, 35, 100, 300, 700, 2000])
    hidden = dice.choice([8, 16, 32, 64, 200] if bptt <= 100 else [8, 16, 32])
    shards = dice.choice([1, 1, 1, 2, 4, 8, 16, 20, 32] if bptt <= 35 else [1, 1, 2])
    return ["--bptt", bptt, "--hidden", hidden, "--shards", shards, "--batch", shards * dice.choice([1, 2, 4]),
            *pick(dice, cell=["lstm", "gru", "rnn"], layers=[1, 2, 3] if bptt <= 300 else [1, 2], dropout=[0, 0, 0.2]),
            *pick(dice, optimizer=["sgd", "adam"])]


def nmt_sizes(dice, text):
    shards = dice.choice([1, 1, 1, 2, 4, 8, 16, 32]) if not text else dice.choice([1, 1, 2, 4])
    sizes = ["--shards", shards, "--batch", shards * dice.choice([1, 2, 4]),
             *pick(dice, hidden=[16, 32, 64], embed=[16, 32], cell=["lstm", "gru"], enc_layers=[1, 1, 2, 4], dec_layers=[1, 1, 2, 4]),
             *pick(dice, attention=["mlp", "dot"], optimizer=["sgd", "adam"], dropout=[0, 0, 0.2])]
    if dice.random() < 0.3:
        sizes.append("--feed")
    return sizes + ([] if text else pick(dice, src_len=[5, 15, 30, 60], tgt_len=[5, 15, 30, 60]))


def sentence_sizes(dice):
    shapes = dice.choice([1, 2, 4, 8, 16, 32])
    return ["--bucket", dice.choice(["optimal", "percentile", "width", "greedy", "auto"]), "--shapes", shapes, "--max-len", "110"]


def texts(dice, help):
    longest = dice.choice([8, 20, 60, 100])
    lengths = [dice.randrange(1, longest + 1) for _ in range(97)]
    for name, seed in (("src", 1), ("tgt", 2), ("valid.src", 3), ("valid.tgt", 4)):
        help.lines(name, 200 if "valid" not in name else 40, lengths, dice.choice([20, 300]), seed)


def setting(dice, help):
    """The command of a random setting, those to run before it, and its standard input."""
    kind = dice.choice(["bench lm", "bench lm", "bench nmt", "bench nmt", "train lm", "by sentence", "train nmt", "train nmt", "eval lm",
                        "generate", "eval nmt", "decode"])
    texts(dice, help)
    lm = ["train", "lm", "--train", "src", "--vocab", "all", "--steps", "2", "--out", "run", *lm_sizes(dice)]
    sentences = ["train", "lm", "--by-sentence", "--train", "src", "--vocab", "all", "--steps", "2", "--out", "run",
                 *pick(dice, hidden=[16, 64], layers=[1, 2], batch=[4, 16]), *sentence_sizes(dice)]
    nmt = ["train", "nmt", "--train", "src", "tgt", "--vocab", "all", "--steps", "2", "--out", "run", *nmt_sizes(dice, True),
           *sentence_sizes(dice)]
    valid = dice.choice([[], ["--valid", "valid.src", "valid.tgt"], ["--valid", "valid.src", "valid.tgt", "--valid-metric", "bleu"]])
    commands = {
        "bench lm": (["bench", "lm", "--vocab", dice.choice([50, 1000, 5000]), "--steps", "2", "--json", *lm_sizes(dice)], [], None),
        "bench nmt": (["bench", "nmt", "--vocab", dice.choice([50, 1000]), "--steps", "2", "--json", *nmt_sizes(dice, False)], [], None),
        "train lm": (lm + dice.choice([[], ["--valid", "valid.src"]]), [], None),
        "by sentence": (sentences + dice.choice([[], ["--valid", "valid.src"]]), [], None),
        "train nmt": (nmt + valid, [], None),
        "eval lm": (["eval", "lm", "run", "valid.src", "--json"], [dice.choice([lm, sentences])], None),
        "generate": (["generate", "run", "--length", "20"], [lm], None),
        "eval nmt": (["eval", "nmt", "run", "valid.src", "valid.tgt", "--json"], [nmt], None),
        "decode": (["decode", "run", *pick(dice, beam=[1, 5], batch=[1, 16, 64])], [nmt], "valid.src"),
    }
    return commands[kind]


def last_line(done):
    return (done.err.strip().splitlines() or [""])[-1][-200:]


def measure(help, args, number):
    """One setting in an empty folder: what it was, bytes above the plan (None: it failed), and why."""
    dice = random.Random(args.seed * 1000003 + number)
    command, before, stdin = setting(dice, help)
    tune = help.store("store", 10000) if dice.random() < 0.25 else "off"
    last = ["--threads", dice.choice([1, 2, 4]), "--tune", tune]
    for earlier in before:
        done = help.run([*earlier, "--tune", "off"])
        if done.code != 0:
            return earlier, None, f"exit {done.code}: {last_line(done)}"
    command = [*map(str, command), *map(str, last)]
    planned = None
    if command[0] in ("decode", "generate"):
        planned = help.least(command, stdin)
        command += ["--memory", str(planned)]
    peak = help.run(command, stdin)
    planned = planned or peak.planned()
    if peak.code == 4 and "planning its" in last_line(peak):
        return command, 0, "refused: too many nodes"
    if peak.code != 0 or planned is None:
        return command, None, f"exit {peak.code}: {last_line(peak)}"
    if args.limit:
        return limited(help, command, stdin, planned)
    return command, peak.resident - planned, f"planned {planned / 2**20:.1f} MiB"


def limited(help, command, stdin, planned):
    """The same again with few addresses: it may be refused for want of memory, but not crash."""
    if "--out" in command:
        command = command + ["--fresh"]
    if "--memory" not in command:
        command = command + ["--memory", str(planned)]
    done = help.run(command, stdin, space=planned + MARGIN)
    return command, None if done.code not in (0, 4, 8) else 0, f"exit {done.code}: {last_line(done)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ebb", default="build/ebb")
    parser.add_argument("--settings", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--limit", action="store_true", help="with plan + 64 MiB of addresses")
    args = parser.parse_args()
    os.environ["EBB"] = os.path.abspath(args.ebb)
    import peak_help as help
    worst, above, failed = (-1, None, 0), 0, 0
    for number in range(args.settings) if args.only is None else [args.only]:
        folder, back = tempfile.mkdtemp(), os.getcwd()
        os.chdir(folder)
        try:
            command, over, why = measure(help, args, number)
        finally:
            os.chdir(back)
            shutil.rmtree(folder, ignore_errors=True)
        said = "FAILED" if over is None else "" if args.limit else f"{over / 2**20:+.1f} MiB"
        print(f"{number:4} {said:>10} ({why}): ebb {' '.join(map(str, command))}", flush=True)
        failed += over is None
        above += over is not None and over > help.ALLOWED
        worst = max(worst, (over if over is not None else -1, number, ""), key=lambda item: item[0])
    if not args.limit:
        print(f"largest: {worst[0] / 2**20:+.1f} MiB above the plan, setting {worst[1]}; {above} above {help.ALLOWED >> 20} MiB")
    print(f"{failed} failed")
    return 1 if failed or above else 0


if __name__ == "__main__":
    sys.exit(main())
