"""A group's cell that was cut off is measured again, all of it: what stands of it counts no more. Usage: FOLDER."""
import json
import os
import shutil
import sys

from tune_groups import SHAPE, compile_kernel, lines, measure, write_bundle

folder = sys.argv[1]
shutil.rmtree(folder, ignore_errors=True)
os.mkdir(folder)
results = folder + "/results.jsonl"
candidates = [("base", "base.ptx"), ("small", "small.ptx"), ("smaller", "smaller.ptx")]
for (_, file), flags in zip(candidates, ((), ("--block-kv", "16"), ("--block-q", "16", "--warps", "1"))):
    compile_kernel(f"{folder}/{file}", "--head-dim", "16", *flags)
later = {"batch": 1, "heads": 1, "heads_kv": 1, "seqlen_q": 17, "seqlen_k": 9}
write_bundle(folder, {"g": candidates}, ({"batch": 1, "heads": 2, "heads_kv": 1, "seqlen_q": 40, "seqlen_k": 48}, later))
LATER = "1x1/1x17x9"
ROUNDS = 3


def again(keep):
    """Measures on from those lines; the lines that came."""
    with open(results, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in keep)
    run = measure(folder, results, "--rounds", str(ROUNDS))
    assert run.returncode == 0, run.stderr
    after = lines(results)
    assert after[:len(keep)] == keep
    return after[len(keep):]


def visits(of, shape):
    return [line["time"]["kernel"] for line in of if "time" in line and line["time"]["shape"] == shape]


assert measure(folder, results, "--rounds", str(ROUNDS)).returncode == 0
whole = lines(results)
names = {line["check"]["schedule"]: line["check"]["kernel"] for line in whole if "check" in line}
base, everyone = names["base"], sorted(names.values())
for shape in (SHAPE, LATER):
    # What others are ratios to is the first that is timed, and each comes first in some turn.
    order = visits(whole, shape)
    assert order[0] == base and len(order) == 3 * ROUNDS, order
    assert sorted(order[::3]) == everyone, order
assert again(whole) == []

times = [number for number, line in enumerate(whole) if "time" in line and line["time"]["shape"] == LATER]
restart = {"again": {"group": "g", "shape": LATER}}


def expect_again(keep):
    more = again(keep)
    assert restart in more and visits(more, SHAPE) == [], more
    assert sorted(visits(more[more.index(restart):], LATER)) == sorted(everyone * ROUNDS), more
    assert again(lines(results)) == []


# Cut off amid a turn; after a whole one; before the base came, and nobody else lacks a visit.
expect_again(whole[:times[1]])
expect_again(whole[:times[3 * ROUNDS - 1]])
expect_again([line for number, line in enumerate(whole) if number not in times or line["time"]["kernel"] != base])
# A cell that was never begun is begun.
more = again(whole[:times[0]])
assert restart not in more and sorted(visits(more, LATER)) == sorted(everyone * ROUNDS), more
# A candidate that is dropped does not keep a cell from being whole.
lost = {"lost": {"kernel": names["small"], "why": "it hung"}}
assert again([*whole, lost]) == []
