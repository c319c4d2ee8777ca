"""--memory of several processes: one budget for each of them, or one for all. Each takes its own
plan, the bits are the same, and a budget that is too small ends all of them with one line."""
import json
import os
import re

from ebbtest import EBB, digest, ebb, main_with_mpi, mpirun, refused, text

# Shards of four: three ranks have different shares of the batch.
MODEL = ["--layers", "2", "--hidden", "24", "--batch", "8", "--bptt", "12", "--shards", "4", "--threads", "1", "--optimizer", "adam"]
LM = ["bench", "lm", *MODEL, "--vocab", "700", "--steps", "2", "--json"]
BUDGET = re.compile(r"ebb: rank (\d+) \((.+?)\): the budget of (\d+) bytes is too small: the least that works is (\d+) bytes .*largest: (\S.*)")


def ranks(count, *args, expect=0):
    done = mpirun(count, EBB, *args)
    assert done.returncode == expect, f"{count} x {args}: exit {done.returncode}, not {expect}\n{done.stdout}{done.stderr}"
    return done


def said(done):
    """What ranks said, without what mpirun says."""
    return [line for line in done.stderr.splitlines() if line.startswith("ebb: ")]


def too_small(count, *args):
    """Exit code 4 and one line: rank, host, its budget, the least that would do, the culprit."""
    done = ranks(count, *args, expect=4)
    assert len(said(done)) == 1, done.stderr
    assert done.stdout == "", done.stdout
    found = BUDGET.fullmatch(said(done)[0])
    assert found, said(done)[0]
    assert found[2] == os.uname().nodename, found[2]
    return int(found[1]), int(found[3]), int(found[4])


def planned(done):
    """Planned bytes by rank, which are the measured ones, and the hash of the weights."""
    result = json.loads(done.stdout)
    for rank in result["ranks"]:
        assert rank["planned_peak_bytes"] == rank["measured_peak_bytes"], rank
        assert rank["allocations_after_first_step"] == 0, rank
    return [rank["planned_peak_bytes"] for rank in result["ranks"]], result["weights_hash"]


def listed(budgets):
    return ",".join(map(str, budgets))


def least_of(count, rank, *args):
    """The least that the rank can do with, as it says itself."""
    budgets = ["1G"] * count
    budgets[rank] = "1"
    named, budget, least = too_small(count, *args, "--memory", listed(budgets))
    assert (named, budget) == (rank, 1), (named, budget)
    return least


def test_three_budgets_give_the_same_bits():
    """Least, in the middle and plenty, each on every rank."""
    fast, alone = planned(ranks(3, *LM, "--memory", "1G"))
    assert ebb(*LM).json()["weights_hash"] == alone
    least = [least_of(3, rank, *LM) for rank in range(3)]
    assert all(a < b for a, b in zip(least, fast)), (least, fast)
    for turn in range(3):
        budgets = [[least[r], (least[r] + fast[r]) // 2, 1 << 30][(r + turn) % 3] for r in range(3)]
        peaks, bits = planned(ranks(3, *LM, "--memory", listed(budgets)))
        assert bits == alone, (budgets, bits, alone)
        assert all(peak <= budget for peak, budget in zip(peaks, budgets)), (peaks, budgets)
        assert peaks != fast, (peaks, budgets)


def test_one_byte_less_is_refused():
    stages = [*LM, "--stages", "2"]
    for rank in range(2):
        least = least_of(2, rank, *stages)
        budgets = [1 << 30] * 2
        budgets[rank] = least
        peaks, _ = planned(ranks(2, *stages, "--memory", listed(budgets)))
        assert peaks[rank] <= least, (rank, peaks, least)
        budgets[rank] -= 1
        assert too_small(2, *stages, "--memory", listed(budgets)) == (rank, least - 1, least)


def test_all_too_small():
    """One budget for each of them, with which none can do: the first one speaks."""
    named, budget, _ = too_small(3, *LM, "--memory", "1K")
    assert (named, budget) == (0, 1024), (named, budget)
    # Of several that have failed, the first.
    assert too_small(3, *LM, "--memory", "1G,1K,1K")[0] == 1


def test_list_of_sizes():
    done = ranks(3, *LM, "--memory", "1G,600M", expect=2)
    assert len(said(done)) == 1 and "--memory lists 2 sizes and there are 3 processes" in said(done)[0], done.stderr
    done = ranks(2, *LM, "--memory", "1G,600M,1", expect=0)  # the third is not there
    assert planned(done)[0]
    for value, why in (("1G,80%", "has something else than numbers of bytes"), ("auto,1G", "has something else than numbers of bytes"),
                       ("1G,", "is not a size"), ("1G,2Q", "has an unknown unit"), (",".join(["1G"] * 65), "is too long")):
        refused(2, *LM, "--memory", value, says=["--memory", why])
    # Alone it is the first one's.
    assert ebb(*LM, "--memory", "1G,1").json()["planned_peak_bytes"]
    refused(4, *LM, "--memory", "1,1G", says=["budget of 1 bytes"])


def test_batch_that_fits_all():
    """The process with the least room decides, wherever it is; plan finds the same batch."""
    def with_batch(batch):
        return [word if word != "8" else str(batch) for word in LM]

    for tight in 0, 1:
        budgets = listed([3 << 20 if rank == tight else 1 << 30 for rank in range(2)])
        for stages in [], ["--stages", "2"]:
            found = json.loads(ranks(2, *with_batch("auto"), *stages, "--memory", budgets).stdout)
            peaks = [rank["planned_peak_bytes"] for rank in found["ranks"]]
            assert found["batch"] % 32 == 0 and peaks[tight] <= 3 << 20, (stages, tight, found["batch"], peaks)
        found = json.loads(ranks(2, *with_batch("auto"), "--memory", budgets).stdout)["batch"]
        assert too_small(2, *with_batch(2 * found), "--memory", budgets)[0] == tight
        plan = ["plan", "lm", *MODEL, "--vocab", "700", "--ranks", "2", "--memory", budgets, "--json"]
        assert ebb(*[word if word != "8" else "auto" for word in plan]).json()["batch"] == found


def test_batch_fits_to_the_byte():
    """What the search for a batch counts is what the plan takes, of all processes: one byte less than a batch needs is a smaller batch."""
    model = ["lm", "--layers", "2", "--hidden", "8", "--bptt", "6", "--vocab", "50", "--shards", "2", "--threads", "1", "--ranks", "2", "--reduce", "slices"]
    for rank in 0, 1:
        budgets = ["1G", "1G"]
        budgets[rank] = "1"
        why = refused(4, "plan", *model, "--batch", "64", "--memory", listed(budgets), says=[f"rank {rank} of 2"])
        least = int(re.search(r"the least that works is (\d+) bytes", why)[1])
        for less, fits in (0, True), (1, False):
            budgets[rank] = str(least - less)
            found = ebb("plan", *model, "--batch", "auto", "--memory", listed(budgets), "--json").json()["batch"]
            assert found >= 64 if fits else found < 64, (rank, less, found)


def test_training():
    """The followers of a training run have their own budgets too, which the run stores."""
    text("train.txt")
    train = ["train", "lm", *MODEL, "--train", "train.txt", "--steps", "3", "--quiet"]
    ebb(*train, "--out", "alone")
    least = least_of(3, 2, *train, "--out", "small")
    assert too_small(3, *train, "--out", "small", "--memory", f"1G,1G,{least - 1}") == (2, least - 1, least)
    assert not os.path.exists("small/last.safetensors")
    ranks(3, *train, "--out", "shared", "--memory", f"1G,600M,{least}")
    assert digest("shared/last.safetensors") == digest("alone/last.safetensors")
    with open("shared/config", encoding="utf8") as file:
        assert f"memory = {1 << 30},{600 << 20},{least}" in file.read()
    assert too_small(3, *train, "--out", "none", "--memory", "1K")[0] == 0


if __name__ == "__main__":
    main_with_mpi(globals())
