"""Builds that end early leave no bundle that looks whole. Usage: FOLDER."""
import json
import os
import signal
import subprocess
import sys
import time

folder = sys.argv[1]
bundle, cache = folder + "/bundle", folder + "/cache"
build = ["fa2-tune", "build", "--quiet", "--jobs", "1", "--top", "9", "--shape", "1,2,1,80,96", "-o", bundle, f"head_dim=32 cache='{cache}'"]

# Killed when some kernels are there: no list, so it is no bundle; the next build takes from the cache what was made.
process = subprocess.Popen(build)
while process.poll() is None and not (os.path.isdir(bundle) and len(os.listdir(bundle)) >= 3):
    time.sleep(0.005)
process.send_signal(signal.SIGKILL)
process.wait()
assert not os.path.exists(bundle + "/bundle.json"), "it was done before it was killed"
measured = subprocess.run(["fa2-tune", "measure", bundle, "-o", folder + "/results", "--device", "sim"], capture_output=True, text=True)
assert measured.returncode == 2 and "cannot read" in measured.stderr, measured.stderr
made = set(os.listdir(cache))
assert subprocess.run(build).returncode == 0
assert made and all(name in os.listdir(cache) for name in made if name.endswith(".ptx"))
with open(bundle + "/bundle.json") as file:
    first = json.load(file)
for kernel in first["kernels"]:
    assert os.path.getsize(f"{bundle}/{kernel['file']}") > 1000, kernel

# The same candidates from the cache are the same bundle.
assert subprocess.run(build).returncode == 0
with open(bundle + "/bundle.json") as file:
    assert json.load(file) == first

# A full disk.
small = folder + "/small"
os.makedirs(small)
mounted = ["unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o size=200k none {small} && \"$@\"", "sh"]
if subprocess.run([*mounted, "true"], capture_output=True).returncode == 0:
    run = subprocess.run([*mounted, *build[:-2], small + "/bundle", build[-1]], capture_output=True, text=True)
    assert run.returncode == 1 and "cannot write" in run.stderr and "No space left on device" in run.stderr, (run.returncode, run.stderr)
else:
    print("no file system can be mounted here: a full one was not tried")
