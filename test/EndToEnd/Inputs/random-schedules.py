#!/usr/bin/env python3
"""Random schedules: whatever fa2-compile accepts is right, does not hang, and assembles.

    random-schedules.py FOLDER --seed 1 --count 200 --ptxas 20

Draws fields of the schedule for sm_90a and sm_80, of sm_90a's backward (--families sm_90a-backward), or of its forward with score programs that
add what they have of keys or distances, or read a bias of each score (sm_90a-terms), or of their backward (sm_90a-terms-backward), over head dims, dtypes and masks, sinks and dropout at times. A schedule that is refused must be refused by
name: "expected ..." or a budget, in one line. One that is accepted runs on the simulator, on lengths that give warpgroups
different numbers of tiles and blocks several of them; the simulator reports deadlocks, races and what fa2-run finds wrong. The
first --ptxas accepted ones of sm_90a must assemble with neither C75xx (wgmma in series) nor an error such as C7602; of those
whose compiler warned of spills, C7512 (too few registers for wgmma side by side) is no news. The exit status is 1 when any of
that fails; each failure is one line that can be typed again.
"""
import argparse
import concurrent.futures
import os
import random
import re
import subprocess
import sys

SHAPES = ((100, 300), (330, 350), (200, 70), (129, 257), (70, 420), (64, 1), (393, 130))


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--count", type=int, default=100, help="schedules drawn, of which most are accepted")
    p.add_argument("--families", default="sm_90a,sm_80", type=lambda text: text.split(","))
    p.add_argument("--ptxas", type=int, default=0, metavar="N", help="assemble the first N accepted ones of sm_90a")
    p.add_argument("--device", default="sim?sms=2&resident=0", help="fa2-run's --device")
    p.add_argument("--fa2-compile", default="fa2-compile", metavar="PATH")
    p.add_argument("--fa2-run", default="fa2-run", metavar="PATH")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--seconds", type=float, default=120, help="a run that takes longer hangs")
    return p.parse_args()


class Draw:
    """Of random() alone, which is the same in every version of Python."""

    def __init__(self, seed):
        self.source = random.Random(seed)

    def pick(self, *choices):
        return choices[int(self.source.random() * len(choices))]

    def chance(self, p):
        return self.source.random() < p


def draw_sm90a(d):
    fields = {}
    groups = d.pick(1, 2, 2, 3, 3)
    if d.chance(0.5):
        fields["block_q"] = 64 * groups
    elif d.chance(0.5):
        fields["warps"] = 4 * groups
    if d.chance(0.6):
        fields["block_kv"] = d.pick(16, 32, 48, 64, 80, 96, 112, 128, 160, 176)
    if d.chance(0.7):
        fields["stages"] = d.pick(1, 1, 1, 2, 2, 3, 4)
    if d.chance(0.4):
        fields["lazy_rescale"] = d.pick(0, 1, 8, 15)
    for name in ("overlap", "ping_pong", "persistent", "separate_output", "group_limits"):
        if d.chance(0.45):
            fields[name] = d.pick(0, 1)
    if d.chance(0.4):
        fields["speculate_max"] = d.pick(0, 1, 8)
    if d.chance(0.25):
        fields["query_slots"] = d.pick(1, 2)
    if d.chance(0.12):
        fields["packed_heads"] = d.pick(2, 4)
    if d.chance(0.2):
        fields["order"] = d.pick("ascending", "longest_first")
    for name in ("rings.k", "rings.v"):
        if d.chance(0.15):
            fields[name] = d.pick(1, 2, 3, 4)
    if d.chance(0.3):
        fields["queries_in_registers"] = d.pick(16, 32, 48, 64, 128)
    return fields


def draw_sm90a_backward(d):
    fields = {}
    if d.chance(0.2):
        fields["warps"], fields["block_kv"] = d.pick((4, 64), (8, 64), (8, 128), (12, 192))
    if d.chance(0.3):
        fields["key_warps"] = d.pick(0, 4)
    if d.chance(0.4):
        fields["cluster"] = d.pick(1, 2, 2)
    if d.chance(0.4):
        fields["loop_order"] = d.pick("written", "scores_first", "keys_behind", "keys_behind_lean", "gradients_behind", "values_first", "scores_between", "values_behind", "derived")
    if d.chance(0.3):
        fields["dq"] = d.pick("atomic", "atomic_v4", "ordered", "recompute")
    if d.chance(0.1):
        fields.update(role_columns=d.pick(64, 128, 128), warps=8, block_kv=64, key_warps=4, rounded_p=1, dq_columns=64)
        fields["values_in_registers"] = d.pick(0, 32)
    elif d.chance(0.1):
        fields.update(role_products=1, dq_by_producer=1, warps=8, block_kv=64, key_warps=4, rounded_p=1, dq_columns=64)
        fields["keys_in_registers"] = d.pick(0, 64)
    for name, values in (("stages", (1, 2, 2, 3, 4)), ("rings.exchange", (1, 2, 3)), ("rings.dout", (0, 1, 1, 2)), ("preload", ("none", "delta", "both")),
                         ("dq_columns", (0, 32, 64, 96, 128, 192, 224, 256)), ("dq_by_producer", (0, 1)), ("persistent", (0, 1)), ("ping_pong", (0, 1)),
                         ("q_in_registers", (0, 1)), ("separate_output", (0, 1)), ("rounded_p", (0, 1)), ("chained", ("none", "late", "early")),
                         ("order", ("ascending", "longest_first", "interleaved")), ("dq_role", (0, 1)), ("direct_output", (0, 1))):
        if d.chance(0.2):
            fields[name] = d.pick(*values)
    return fields


def draw_sm80(d):
    fields = {}
    if d.chance(0.6):
        fields["warps"] = d.pick(1, 2, 3, 4, 8)
        fields["block_q"] = 16 * fields["warps"] * d.pick(1, 1, 2)
    if d.chance(0.3):
        fields["partition"] = "split_k"
        fields["block_q"] = d.pick(16, 32)
        fields["warps"] = d.pick(2, 4, 4, 8)
    if d.chance(0.6):
        fields["block_kv"] = d.pick(16, 32, 48, 64, 80, 96, 128)
    if d.chance(0.7):
        fields["stages"] = d.pick(1, 2, 3, 4)
    if d.chance(0.4):
        fields["lazy_rescale"] = d.pick(0, 1, 8, 15)
    if d.chance(0.4):
        fields["q_in_registers"] = d.pick(0, 1)
    if d.chance(0.12):
        fields["packed_heads"] = d.pick(2, 4)
    if d.chance(0.2):
        fields["order"] = d.pick("ascending", "longest_first")
    return fields


def draw_sm90a_terms(d):
    fields = draw_sm90a(d)
    fields["preload_terms"] = int(d.chance(0.8))
    if d.chance(0.5):
        fields["chained"] = d.pick("none", "early", "late")
    if d.chance(0.3):
        fields.update(split_scores=1, speculate_max=8)
    if fields["preload_terms"] and d.chance(0.5):
        fields.update(terms_role=1, chained="none")
    return fields


def draw(seed, number, families):
    d = Draw(f"{seed}/{number}")
    family = d.pick(*families)
    fields = {"sm_90a": draw_sm90a, "sm_90a-backward": draw_sm90a_backward, "sm_90a-terms": draw_sm90a_terms,
              "sm_90a-terms-backward": draw_sm90a_backward, "sm_80": draw_sm80}[family](d)
    kernel = {"arch": family.partition("-")[0], "head-dim": d.pick(8, 40, 64, 64, 72, 96, 128, 128, 160, 192, 200, 256),
              "mask": d.pick("none", "causal", "causal-top-left"), "dtype": d.pick("bf16", "f16")}
    if d.chance(0.15):
        kernel["head-dim-v"] = d.pick(24, 64, 128, 192)
    words = [f"--{name}={value}" for name, value in kernel.items()]
    entries = 1
    if family.endswith("-backward"):
        words.append("--pass=backward")
    if family.endswith("-terms"):
        words += d.pick(["--bias=key"], ["--bias=head-key"], ["--alibi=head"], ["--bias=full"])
        if "--bias=full" in words:
            fields["rings.reads"] = d.pick(0, 1, 2)
            fields["queries_in_registers"] = d.pick(0, 16, 32, 64)
    elif "-terms-" in family:
        words += d.pick(["--bias=key", "--grads=bias"], ["--bias=head-key"], ["--alibi=head", "--bias=query"], ["--bias=full"],
                        ["--alibi=head", "--grads=slopes"], ["--softcap=20", "--bias=head"], ["--bias=full", "--grads=bias:whole"],
                        ["--bias=full", "--grads=bias:batch"])
        if "--grads=bias:batch" in words:
            fields["sum_turns"] = d.pick(0, 4, 8)
            entries = d.pick(1, 2, 3)
        if "--grads=bias:whole" in words and kernel["mask"] != "none":
            fields["stores_hidden"] = d.pick(0, 1)
    words.append("--schedule=" + ",".join(f"{name}={value}" for name, value in fields.items()))
    beside = Draw(f"{seed}/{number}/beside")
    words += [f"--{name}={value}" for name, value in (("sink", "head"), ("dropout", "argument")) if beside.chance(0.25)]
    q, k = d.pick(*SHAPES)
    packed = fields.get("packed_heads", 1)
    heads_kv = d.pick(1, 1, 2) if packed == 1 or kernel["head-dim"] < 128 else 1
    heads = heads_kv * packed * (d.pick(1, 1, 2) if packed == 1 else 1)
    run = ["--sign"] if d.chance(0.5) else ["--random-scale", d.pick("1", "6", "60")]
    return words, run + ["--batch", str(entries), "--heads", str(heads), "--heads-kv", str(heads_kv), "--seqlen-q", str(q),
                         "--seqlen-k", str(k), "--seed", str(int(d.source.random() * 1e6))]


def in_a_line(*texts):
    return " ".join(" ".join(texts).split())[:400]


def one(o, number):
    """"refused", "" for an accepted one that is right, or what is wrong; its flags; whether the compiler warned of spills."""
    words, run = draw(o.seed, number, o.families)
    ptx = os.path.join(o.folder, f"{number}.ptx")
    typed = f"fa2-compile {' '.join(words)}"
    made = subprocess.run([o.fa2_compile, *words, "-o", ptx], capture_output=True, text=True)
    # Before any pass has begun on the kernel, whose operations are no user's matter.
    if made.returncode == 1 and made.stderr.count("error: ") == 1 and re.search(r"error: .*\bexpected\b|error: .*\bneeds?\b",
                                                                                  made.stderr) and "' op " not in made.stderr:
        return "refused", words, False
    if made.returncode:
        return f"{typed}: status {made.returncode}, not refused by name: {in_a_line(made.stderr)}", words, False
    warned = "will probably spill" in made.stderr
    try:
        ran = subprocess.run([o.fa2_run, ptx, "--device", o.device, *run], capture_output=True, text=True, timeout=o.seconds)
    except subprocess.TimeoutExpired:
        return f"{typed} | fa2-run - --device '{o.device}' {' '.join(run)}: still running after {o.seconds} s", words, warned
    if ran.returncode:
        return f"{typed} | fa2-run - --device '{o.device}' {' '.join(run)}: {in_a_line(ran.stderr, ran.stdout)}", words, warned
    return "", words, warned


def assemble(o, number, words, warned):
    done = subprocess.run(["ptxas", "-arch=sm_90a", "-v", f"{o.folder}/{number}.ptx", "-o", "/dev/null"], capture_output=True,
                          text=True)
    bad = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r"C7[56]\d\d|error|warning", line)
           and not (warned and "C7512" in line)]
    if done.returncode or bad:
        return f"fa2-compile {' '.join(words)}: ptxas: {in_a_line(*bad)}"
    return ""


def main():
    o = options()
    os.makedirs(o.folder, exist_ok=True)
    todo = range(o.first, o.first + o.count)
    wrong, refused, assembled = 0, 0, []
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        for number, (result, words, warned) in zip(todo, pool.map(lambda n: one(o, n), todo)):
            if result == "refused":
                refused += 1
                continue
            if result:
                wrong += 1
                print(f"{number}: {result}", flush=True)
            if os.path.exists(f"{o.folder}/{number}.ptx"):
                if words[0] == "--arch=sm_90a" and len(assembled) < o.ptxas:
                    assembled.append((number, words, warned))
                else:
                    os.remove(f"{o.folder}/{number}.ptx")
        for text in pool.map(lambda made: assemble(o, *made), assembled):
            if text:
                wrong += 1
                print(text, flush=True)
    accepted = len(todo) - refused
    print(f"{len(todo)} schedules drawn, {accepted} accepted and run, {len(assembled)} assembled: {wrong} wrong")
    # A compiler that refused everything would pass otherwise.
    sys.exit(wrong > 0 or accepted < 0.3 * len(todo))


if __name__ == "__main__":
    main()
