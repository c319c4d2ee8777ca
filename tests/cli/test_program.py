"""`ebb plan --program`: every instruction of every program, with addresses inside the plan."""
import re

from ebbtest import TINY, ebb, main, text

LM = ["lm", *TINY, "--vocab", "30"]
NMT = ["nmt", "--hidden", "8", "--batch", "4", "--src-len", "5", "--tgt-len", "4", "--vocab", "30", "--threads", "2"]


def listed(*args):
    plan = ebb("plan", *args, "--program", "--json").json()
    assert plan["programs"], "no program"
    return plan


def check(plan):
    peak = plan["peak_bytes"]
    for program in plan["programs"]:
        instrs = program["list"]
        assert len(instrs) == program["instructions"] > 0
        assert [i["number"] for i in instrs] == list(range(len(instrs)))
        runs = [i["run"] for i in instrs]
        assert runs[0] == 0 and all(0 <= b - a <= 1 for a, b in zip(runs, runs[1:]))
        members = {}
        for i in instrs:
            assert i["kernel"].startswith(i["op"] + "."), i
            assert i["members"] == members.setdefault(i["run"], i["members"]) >= 1
            assert i["phase"] in ("forward", "backward", "update", "recompute")
            assert i["out"] and all(i["out"])
            for view in [v for v in i["in"] + i["out"] if v is not None]:
                assert view["bytes"] > 0 and 0 <= view["address"] and view["address"] + view["bytes"] <= peak, (i, peak)
                assert all(d > 0 for d in view["dims"])
            assert i["scratch_address"] + i["scratch_bytes"] <= peak


def test_json():
    for args in [LM, NMT, [*LM, "--cell", "gru", "--disable", "fuse"], [*LM, "--shards", "2", "--optimizer", "adam"]]:
        plan = listed(*args)
        check(plan)
        assert sum(p["instructions"] for p in plan["programs"]) <= plan["nodes"]


def test_no_two_variables_share_bytes():
    spans = {}
    for i in listed(*LM)["programs"][0]["list"]:
        for v in i["in"]:
            if v is not None and v["name"] is not None:
                spans[v["name"]] = (v["address"], v["address"] + v["bytes"])
    assert "embed.weight" in spans and "data.inputs" in spans
    ends = sorted(spans.values())
    assert all(a[1] <= b[0] for a, b in zip(ends, ends[1:])), ends


def test_several_programs():
    text("t")
    text("v", lines=40, seed=2)
    plan = listed("lm", *TINY, "--train", "t", "--valid", "v")
    check(plan)
    assert [p["name"] for p in plan["programs"]] == ["train", "valid"]
    assert not any(i["phase"] == "backward" for i in plan["programs"][1]["list"])


def test_recomputation_and_the_smallest_plan():
    model = ["lm", "--hidden", "64", "--layers", "1", "--batch", "64", "--bptt", "32", "--vocab", "50", "--threads", "1"]
    least = ebb("plan", *model, "--json").json()["least_bytes"]
    plan = listed(*model, "--memory", least)
    check(plan)
    assert any(i["phase"] == "recompute" for i in plan["programs"][0]["list"])
    done = ebb("plan", *model, "--memory", least - 1, "--program", expect=4)
    assert done.out.startswith("program train: ")


def test_text_is_the_same_list_and_stable():
    plan = listed(*LM)
    out = ebb("plan", *LM, "--program").out
    assert out == ebb("plan", *LM, "--program").out
    lines = out.splitlines()
    instrs = plan["programs"][0]["list"]
    assert lines[0] == f"program train: {len(instrs)} instructions" and len(lines) == len(instrs) + 2
    for line, i in zip(lines[2:], instrs):
        words = line.split()
        assert [int(w) for w in words[:3]] == [i["number"], i["run"], i["members"]]
        assert f" {i['kernel']} " in line and i["layer"] in line and i["phase"] in line
        rest = line[line.index(f" {i['kernel']} "):]
        pairs = [(int(a), int(b)) for a, b in re.findall(r"\b(\d+)\+(\d+)", rest)]
        wanted = [(v["address"], v["bytes"]) for v in i["out"] + i["in"] if v is not None]
        assert pairs[:len(wanted)] == wanted, (line, wanted)


main(globals())
