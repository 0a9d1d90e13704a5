"""Every kind of argument that fa2-run draws is drawn for times, too: a kernel that passes there is timed by fa2-tune. Usage: FOLDER [EVERY].
With EVERY, every EVERY-th kind of argument for an architecture, beginning one later for the next: with 2 each kind is drawn for one of both."""
import concurrent.futures
import os
import shutil
import subprocess
import sys

from tune_groups import SHAPE, compile_kernel, lines, measure, write_bundle

folder = sys.argv[1]
every = int(sys.argv[2]) if len(sys.argv) > 2 else 1
shutil.rmtree(folder, ignore_errors=True)
os.mkdir(folder)


def program(name, operands, body, grads=""):
    """A file with a score program that reads `operands`, {name: type}."""
    q, lse = "tensor<?x?x?x32xbf16>", "tensor<?x?x?xf32>"
    arguments = "".join(f", %{n}: {t}" for n, t in operands.items())
    types = ", ".join(operands.values())
    text = f"""func.func @{name}(%q: {q}, %k: {q}, %v: {q}, %scale: f32{arguments}) -> ({q}, {lse}) {{
  %o, %lse = fa2.attention ins(%q, %k, %v) scale(%scale) extras({', '.join('%' + n for n in operands)} : {types})
      {{extra_names = [{', '.join(f'"{n}"' for n in operands)}]}} : {q}, {q}, {q} -> {q}, {lse}
      score {{
      ^bb0(%s: f32, %b: index, %h: index, %i: index, %j: index, {', '.join(f'%x{n}: {t}' for n, t in operands.items())}):
{body}
        fa2.yield %r : f32
      }}
  return %o, %lse : {q}, {lse}
}}
"""
    path = os.path.join(folder, name + ".mlir")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


# A learned table whose extents the program leaves open, and keys' numbers a sequence.
table = program("table", {"table": "tensor<?x?xf32>", "factor": "f32"}, """\
        %d = arith.subi %i, %j : index
        %t = tensor.extract %xtable[%h, %d] : tensor<?x?xf32>
        %m = arith.mulf %t, %xfactor : f32
        %r = arith.addf %s, %m : f32""")
lengths = program("lengths", {"lengths": "tensor<?xi32>", "least": "i32"}, """\
        %n = tensor.extract %xlengths[%b] : tensor<?xi32>
        %m = arith.maxsi %n, %xleast : i32
        %c = arith.index_cast %j : index to i32
        %hidden = arith.cmpi sge, %c, %m : i32
        %none = arith.constant 0xff800000 : f32
        %r = arith.select %hidden, %none, %s : f32""")

FORWARD = ["", "--mask causal", "--mask causal-top-left --dtype f16", "--head-dim-v 40", "--sink head", "--dropout argument",
           "--alibi head", "--softcap argument", "--softcap 20", "--bias key", "--bias query", "--bias head", "--bias head-key", "--bias full",
           "--sink head --dropout argument --bias full --alibi head --mask causal", table, lengths]
BACKWARD = ["", "--mask causal --dtype f16", "--dq recompute", "--dq ordered", "--head-dim-v 40", "--dropout argument", "--grad-lse argument",
            "--sink head", "--sink head --grads sink", "--alibi head", "--alibi head --grads slopes", "--softcap argument",
            "--softcap argument --grads softcap", "--bias full", "--bias full --grads bias", "--bias key --grads bias", "--bias query --grads bias",
            "--bias head --grads bias", "--bias head-key --grads bias", f"{table} --grads table,factor", lengths,
            "--sink head --dropout argument --grad-lse argument --bias head-key --grads sink,bias"]
groups, wanted = {}, []
for first, arch in enumerate(("sm_80", "sm_90a")):
    for pass_, table_of in (("forward", FORWARD), ("backward", BACKWARD)):
        for number, flags in enumerate(table_of):
            if (number + first) % every:
                continue
            words = flags.split()
            own = [] if any(word.endswith(".mlir") for word in words) else ["--head-dim", "32"]
            file = f"{pass_}-{arch}-{number:02}.ptx"
            wanted.append((os.path.join(folder, file), "--arch", arch, "--pass", pass_, *own, *words))
            # One group a pass and family: its candidates read different things.
            groups.setdefault(f"{pass_}-{arch}", []).append((os.path.basename(flags) or "plain", file))
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    list(pool.map(lambda command: compile_kernel(*command), wanted))
write_bundle(folder, groups)
count = sum(map(len, groups.values()))

run = measure(folder, folder + "/results.jsonl", "--rounds", "1")
assert run.returncode == 0, run.stderr
timed = {line["time"]["kernel"] for line in lines(folder + "/results.jsonl") if "time" in line and line["time"]["shape"] == SHAPE}
assert "dropped" not in run.stderr and len(timed) == count, (len(timed), count, run.stderr)

# What fa2-run does not run is refused by its name.
file = groups["forward-sm_80"][0][1]
with open(os.path.join(folder, file), encoding="utf-8") as read:
    text = read.read()
other = folder + "/other"
os.mkdir(other)
for name, change in (("dtype", ('"dtype": "bf16"', '"dtype": "f32"')), ("pass", ('"pass": "forward"', '"pass": "sideways"'))):
    assert change[0] in text, change
    for path, content in ((file, text), (f"{name}.ptx", text.replace(*change))):
        with open(os.path.join(other, path), "w", encoding="utf-8") as write:
            write.write(content)
    write_bundle(other, {"g": [("plain", file), (name, f"{name}.ptx")]})
    run = measure(other, f"{other}/{name}.jsonl", "--rounds", "1")
    ran = subprocess.run(["fa2-run", f"{other}/{name}.ptx", "--device", "sim"], capture_output=True, text=True)
    why = ran.stderr.strip().removeprefix("fa2-run: ")
    assert run.returncode == 0 and ran.returncode == 2, (run.stderr, ran.stderr)
    assert f"dropped g: {name}: " in run.stderr and why.split(": ", 1)[-1] in run.stderr, (run.stderr, why)
print(f"{count} kernels timed")
