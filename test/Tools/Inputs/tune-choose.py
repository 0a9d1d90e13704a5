"""Results made up, whose best choice is known or found by trying all. Usage: FOLDER."""
import itertools
import json
import math
import random
import re
import subprocess
import sys

folder = sys.argv[1]
PROBLEM = {"pass": "forward", "arch": "sm_80", "dtype": "bf16", "head_dim": 64, "head_dim_v": 64, "mask": "none"}
NOISE = 1.005
A, B, C = ("block_q=%d,block_kv=%d,warps=4,stages=2,lazy_rescale=0" % tile for tile in ((128, 64), (64, 64), (64, 32)))


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def choose(shapes, times, schedules, sources=(), bits=(), problem=PROBLEM, options=()):
    """The row that choose makes of times[shape][candidate]."""
    lines = [{"fa2_tune_results": 1, "device": "made up", "date": "2026-11-23T00:00:00Z", "multiprocessors": 100, "driver": 0}]
    for i, schedule in enumerate(schedules):
        source = sources[i] if sources else "model"
        line = {"kernel": f"k{i}", "problem": problem, "schedule": schedule, "source": source, "compiler": "fa2", "passed": True}
        lines.append({"check": line | ({"bits": bits[i]} if bits else {})})
    for shape, row in zip(shapes, times):
        for i, ms in enumerate(row):
            if ms is not None:
                lines.append({"time": {"kernel": f"k{i}", "shape": shape, "round": 0, "ms": ms, "flops": 1.0}})
    with open(folder + "/results.jsonl", "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    run("fa2-tune", "choose", folder + "/results.jsonl", "-o", folder + "/database.json", *options)
    with open(folder + "/database.json") as file:
        (row,) = json.load(file)["rows"]
    return row


def shape(batch, heads, q, k):
    return f"{batch}x{heads}/{heads}x{q}x{k}"


LENGTHS = [shape(1, 16, n, n) for n in (256, 1024, 4096)]

# One is best everywhere; a gain below noise is none.
row = choose(LENGTHS, [[2, 1, 3]] * 3, [A, B, C])
assert row["schedule"] == B and "variants" not in row, row
row = choose(LENGTHS, [[1, 1.004, 3], [1.004, 1, 3], [1, 1.003, 3]], [A, B, C])
assert "variants" not in row, row

# Each length has its own; the guard lies in the middle of what was measured.
row = choose(LENGTHS, [[4, 2, 1], [2, 1, 2], [1, 2, 4]], [A, B, C])
assert row["schedule"] == A, row
assert row["variants"] == "seqlen_q <= 512: block_q=64,block_kv=32; seqlen_q <= 2048: block_q=64", row
assert row["of_best"] == 1 and row["ms"] == dict.fromkeys(LENGTHS, 1), row
said = run("fa2-compile", "--head-dim", "64", "--database", folder + "/database.json", "--explain", "--emit=fa2").stderr
for text in ("schedule from the database for head dims 64 and 64", "where seqlen_q <= 512: #fa2.schedule<target = \"sm_80\", block_q = 64, block_kv = 32",
             "where seqlen_q <= 2048: #fa2.schedule<target = \"sm_80\", block_q = 64, block_kv = 64"):
    assert text in said, said
# What is asked for leaves them out, as it does the table's.
said = run("fa2-compile", "--head-dim", "64", "--database", folder + "/database.json", "--stages", "1", "--explain", "--emit=fa2").stderr
assert "where" not in said, said

# With one kernel a row, that which loses least over all of them.
row = choose(LENGTHS, [[4, 2, 1], [2, 1, 2], [1, 2, 4]], [A, B, C], options=["--kernels", "1"])
assert (row["schedule"], "variants" in row) == (B, False), row

# Only keys tell these apart.
row = choose([shape(1, 16, 1024, k) for k in (512, 2048, 8192)], [[2, 1], [2, 1], [1, 2]], [A, B])
assert (row["schedule"], row["variants"]) == (A, "seqlen_k <= 4096: block_q=64"), row

# The batch tells apart only what gives a row the same bits.
BATCHES = [shape(b, 16, 1024, 1024) for b in (1, 32)]
row = choose(BATCHES, [[2, 1], [1, 2]], [A, B], bits=["same", "same"])
assert (row["schedule"], row["variants"], row["bits"]) == (A, "batch * heads * seqlen_q <= 912 * device.multiprocessors: block_q=64", "same"), row
run("fa2-compile", "--head-dim", "64", "--database", folder + "/database.json", "-o", folder + "/x.ptx")
for bits in (["one", "other"], ["", ""]):
    assert "variants" not in choose(BATCHES, [[2, 1], [1, 2]], [A, B], bits=bits)

# Blocks of backward have tiles of keys.
row = choose([shape(b, 16, 1024, 1024) for b in (1, 32)], [[2, 1], [1, 2]], [A, B], bits=["same", "same"], problem=PROBLEM | {"pass": "backward"})
assert row["variants"] == "batch * heads_kv * seqlen_k <= 912 * device.multiprocessors: block_q=64", row

# Today's stays where something would be slower somewhere.
row = choose(LENGTHS, [[1, 2], [1, 0.5], [1, 0.5]], [A, B], sources=["today", "model"])
assert (row["schedule"], row["variants"], row["over_before"]) == (B, "seqlen_q <= 512: block_q=128", 1.587), row
row = choose(LENGTHS[:1], [[1, 0.999]], [A, B], sources=["today", "model"])
assert row["schedule"] == A, row
# A candidate that was not measured everywhere serves where it was.
row = choose(LENGTHS, [[2, None, 1], [2, 1, None], [2, 1, None]], [A, B, C])
assert (row["schedule"], row["variants"]) == (B, "seqlen_q <= 512: block_kv=32"), row


def least(shapes, times):
    """By trying all kernels on all parts that a bound on one of the lengths makes."""
    best = [min(row) for row in times]
    found = math.inf
    for length in (0, 1):
        values = sorted({s[length] for s in shapes})
        for parts in (1, 2, 3):
            for cuts in itertools.combinations(values[1:], parts - 1):
                for kernels in itertools.product(range(len(times[0])), repeat=parts):
                    of = [kernels[sum(s[length] >= cut for cut in cuts)] for s in shapes]
                    loss = sum(math.log(times[i][k] / best[i]) for i, k in enumerate(of)) / len(shapes)
                    found = min(found, loss + math.log(NOISE) * (parts - 1))
    return found


draw = random.Random(5)
several = 0
for attempt in range(40):
    shapes = draw.sample([(q, k) for q in (100, 500, 2500, 9000) for k in (64, 700, 5000)], draw.randint(1, 8))
    times = [[draw.uniform(1, 1.5) for _ in range(4)] for _ in shapes]
    tiles = [f"block_q=64,block_kv={kv},warps=4" for kv in (16, 32, 48, 64)]
    row = choose([shape(1, 16, q, k) for q, k in shapes], times, tiles)
    parts = 1 + row.get("variants", "").count(": ")
    several += parts > 1

    def taken(q, k):
        """The candidate that a launch gets by the row's guards."""
        for variant in filter(None, row.get("variants", "").split("; ")):
            name, bound, fields = re.fullmatch(r"seqlen_(.) <= (\d+): (.*)", variant).groups()
            if {"q": q, "k": k}[name] <= int(bound):
                values = (dict(field.split("=") for field in text.split(",")) for text in (row["schedule"], fields))
                return tiles.index(",".join(f"{name}={value}" for name, value in {**next(values), **next(values)}.items()))
        return tiles.index(row["schedule"])

    loss = sum(math.log(row_times[taken(*s)] / min(row_times)) for s, row_times in zip(shapes, times)) / len(shapes)
    expected = least(shapes, times)
    assert abs(loss + math.log(NOISE) * (parts - 1) - expected) < 1e-9, (attempt, loss, parts, expected, row)
    assert row["ms"] == {shape(1, 16, *s): row_times[taken(*s)] for s, row_times in zip(shapes, times)}, row
assert 10 < several < 40, several
