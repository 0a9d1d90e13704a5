"""Measures a bundle while processes are killed, kernels hang or are wrong, files are damaged. Usage: FOLDER."""
import collections
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

folder = sys.argv[1]
bundle, results = folder + "/bundle", folder + "/results.jsonl"
device = f"sim:sm_90?seed={os.getpid()}"  # a name that only the workers of this test have


def tune(*arguments, **more):
    return subprocess.run(["fa2-tune", *arguments], capture_output=True, text=True, **more)


def measure(where=bundle, to=results, *more, **options):
    return tune("measure", where, "-o", to, "--device", device, "--rounds", "2", "--checkers", "2", *more, **options)


def expect(run, text, status):
    assert run.returncode == status and text in run.stderr, (run.returncode, run.stderr)


def workers():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                words = file.read().split("\0")
            with open(f"/proc/{pid}/stat") as file:
                dead = file.read().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            continue
        if "worker" in words and device in words and not dead:
            found.append(int(pid))
    return found


def lines(path):
    with open(path, "rb") as file:
        return [line for line in file.read().split(b"\n")[:-1]]


build = ["build", "--quiet", "--top", "6", "--shape", "1,2,1,80,96"]
assert tune(*build, "-o", bundle, "head_dim=32", "head_dim=64").returncode == 0
with open(bundle + "/bundle.json") as file:
    listed = json.load(file)


def copied(name, change):
    """A bundle of another name whose list is changed."""
    other = f"{folder}/{name}"
    shutil.copytree(bundle, other)
    changed = json.loads(json.dumps(listed))
    change(changed, other)
    with open(other + "/bundle.json", "w") as file:
        json.dump(changed, file)
    return other


# Killed at random moments: what stood stays, nothing is done twice, no worker is left.
draw = random.Random(7)
before, kills = [], 0
for attempt in range(40):
    command = ["fa2-tune", "measure", bundle, "-o", results, "--device", device, "--rounds", "2", "--checkers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        process.wait(draw.uniform(0.02, 0.5))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        kills += 1
    after = lines(results) if os.path.exists(results) else []
    assert after[: len(before)] == before, "lines that stood are gone"
    before = after
    if process.returncode == 0:
        break
assert kills > 1, "it was never killed"
assert measure().returncode == 0
visits = collections.Counter()
for line in map(json.loads, lines(results)):
    if "check" in line:
        assert line["check"]["passed"], line
        visits[line["check"]["kernel"]] += 1
        assert visits[line["check"]["kernel"]] == 1, "checked twice"
    if "time" in line:
        t = line["time"]
        visits[t["kernel"], t["shape"], t["round"]] += 1
        assert visits[t["kernel"], t["shape"], t["round"]] <= (2 if t["round"] == 2 else 1), "timed twice"
assert any(isinstance(key, tuple) and key[2] == 2 for key in visits)
deadline = time.time() + 10
while workers() and time.time() < deadline:
    time.sleep(0.05)
assert not workers(), "workers outlived the one who asked"

# A line that a crash cut short is dropped; one that is damaged is named.
whole = lines(results)
with open(results, "ab") as file:
    file.write(b'{"time": {"kern')
assert measure().returncode == 0 and lines(results) == whole
damaged = folder + "/damaged.jsonl"
with open(damaged, "wb") as file:
    file.write(b"\n".join([*whole[:3], b"{]", *whole[3:]]) + b"\n")
expect(measure(bundle, damaged), "damaged.jsonl, line 4: it is damaged", 2)
expect(tune("show", damaged), "damaged.jsonl, line 4: it is damaged", 2)
with open(damaged, "wb") as file:
    file.write(b'{"fa2_tune_results": 99}\n')
expect(measure(bundle, damaged), "its version is 99, this fa2-tune reads 1", 2)
with open(damaged, "wb") as file:
    file.write(whole[0].replace(b"simulated sm_90", b"NVIDIA H100") + b"\n")
expect(measure(bundle, damaged), "holds results of NVIDIA H100", 2)

# One process writes a file.
first = subprocess.Popen(["fa2-tune", "measure", bundle, "-o", folder + "/other.jsonl", "--device", device],
                         stderr=subprocess.DEVNULL)
while not os.path.exists(folder + "/other.jsonl") or not os.path.getsize(folder + "/other.jsonl"):
    time.sleep(0.01)
expect(measure(bundle, folder + "/other.jsonl"), "another fa2-tune writes it", 2)
first.kill()
first.wait()

# A worker that dies takes one candidate with it.
died = folder + "/died.jsonl"
process = subprocess.Popen(["fa2-tune", "measure", bundle, "-o", died, "--device", device, "--checkers", "1"],
                           stderr=subprocess.PIPE, text=True)
while not (os.path.exists(died) and any(b'"check"' in line for line in lines(died))):
    time.sleep(0.005)
for pid in workers():
    os.kill(pid, signal.SIGKILL)
error = process.communicate()[1]
assert process.returncode == 0, error
assert "it died of signal 9" in error, error


def edit(text):
    """Another kernel in the first candidate's file, and its hash in the list."""
    def change(changed, other):
        kernel = changed["kernels"][0]
        with open(f"{other}/{kernel['file']}") as file:
            ptx = file.read()
        ptx = text(ptx)
        with open(f"{other}/{kernel['file']}", "w") as file:
            file.write(ptx)
        value = 0xCBF29CE484222325
        for byte in ptx.encode():
            value = (value ^ byte) * 0x100000001B3 % 2**64
        kernel["hash"] = f"{value:016x}"
    return change


# A kernel that hangs is killed, one that is wrong is dropped, and the others are measured.
hanging = copied("hanging", edit(lambda ptx: re.sub(r"(\.entry[^{]*\{)", r"\1\n$hang:\n\tbra.uni $hang;", ptx, count=1)))
run = measure(hanging, folder + "/hanging.jsonl", "--patience", "3")
assert run.returncode == 0 and "it did not end within 3 s and was killed" in run.stderr, run.stderr
wrong = copied("wrong", edit(lambda ptx: ptx.replace("ex2.approx.ftz.f32", "lg2.approx.ftz.f32")))
run = measure(wrong, folder + "/wrong.jsonl")
assert run.returncode == 0 and "dropped forward sm_80 bf16 32 none" in run.stderr, run.stderr
shown = tune("show", folder + "/wrong.jsonl").stdout
assert "1 dropped" in shown, shown

# Bundles that are none.
expect(measure(folder + "/nowhere"), "cannot read", 2)
expect(measure(copied("newer", lambda l, _: l.update(fa2_tune_bundle=2))), "its version is 2, this fa2-tune reads 1", 2)
expect(measure(copied("half", lambda l, _: l.pop("kernels"))), "bundle.json is damaged", 2)
expect(measure(copied("gone", lambda l, o: os.remove(f"{o}/{l['kernels'][1]['file']}"))), "is missing", 2)
expect(measure(copied("outside", lambda l, _: l["kernels"][0].update(file="../x.ptx"))), "is not in the bundle's folder", 2)
expect(measure(copied("later", lambda l, _: l["kernels"][0]["problem"].update(arch="sm_100"))), "the device is of", 3)
other = copied("flipped", lambda l, o: os.truncate(f"{o}/{l['kernels'][0]['file']}", 5000))
run = measure(other, folder + "/flipped.jsonl")
assert run.returncode == 0 and "is damaged: its hash is" in run.stderr, run.stderr
expect(tune("measure", bundle, "-o", folder + "/none.jsonl", "--device", "cuda:99"), "device cuda:99: ", 3)

# A full disk: what was written before is whole.
full = folder + "/full.jsonl"
run = measure(bundle, full, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)))
expect(run, "what was measured before is in it", 3)
kept = lines(full)
assert kept and os.path.getsize(full) == sum(len(line) + 1 for line in kept)
assert measure(bundle, full).returncode == 0 and lines(full)[: len(kept)] == kept
print(f"killed {kills} times")
