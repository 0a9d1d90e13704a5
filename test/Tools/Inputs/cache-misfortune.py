"""What may go wrong with a cache of compiled kernels. Usage: FOLDER."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

folder = sys.argv[1]
cache = folder + "/misfortune"


def command(*more, tool="fa2-compile"):
    return [tool, "--head-dim", "32", "--variants", "none", "--cache", cache, *more]


def compiled(*more, prefix=(), tool="fa2-compile"):
    """PTX, what was said, and whether it came from the cache."""
    explain = [] if prefix else ["--explain"]  # for which ptxas would write files too
    run = subprocess.run([*prefix, *command(*explain, *more, tool=tool)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout, run.stderr, "CPU time in ms: cache" in run.stderr


def entries():
    return [os.path.join(cache, name) for name in os.listdir(cache) if name.endswith(".ptx")]


wanted, said, hit = compiled()
assert not hit and "warning" not in said, said
assert compiled()[::2] == (wanted, True)
(entry,) = entries()

# Damage: cut, changed, replaced by nonsense of the same length.
with open(entry, "rb") as file:
    whole = file.read()
for damaged in (whole[:-1], whole[:40], b"", whole[:-1] + b"x", os.urandom(len(whole))):
    with open(entry, "wb") as file:
        file.write(damaged)
    ptx, said, hit = compiled()
    assert ptx == wanted and not hit and f"{entry} is damaged; the kernel is compiled again" in said, said
    assert compiled()[::2] == (wanted, True)

# Killed at any moment: what is there is whole.
start = time.time()
compiled("--stages", "1")
took = time.time() - start
random.seed(1)
for i in range(8):
    for path in entries():
        os.unlink(path)
    process = subprocess.Popen(command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(random.uniform(0.5, 1.2) * took)
    process.send_signal(signal.SIGKILL)
    process.wait()
    ptx, said, _ = compiled()
    assert ptx == wanted and "warning" not in said, said

# Several processes at once, whose entries do not all fit.
shutil.rmtree(cache)
environment = {**os.environ, "FA2_CACHE_MB": "1"}
for _ in range(2):
    running = [(dim, subprocess.Popen(command("--block-kv", dim), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment))
               for dim in ("16", "32", "48", "64") * 2]
    got = {}
    for dim, process in running:
        ptx, said = process.communicate()
        assert process.returncode == 0 and "warning" not in said, said
        assert got.setdefault(dim, ptx) == ptx
    assert sum(map(os.path.getsize, entries())) <= 1 << 20

# Another build of the compiler: the same program with another build id.
compiled()
notes = subprocess.run(["readelf", "-n", shutil.which("fa2-compile")], capture_output=True, text=True).stdout
if identity := re.search("Build ID: ([0-9a-f]+)", notes):
    identity = bytes.fromhex(identity.group(1))
    with open(shutil.which("fa2-compile"), "rb") as file:
        program = file.read()
    assert program.count(identity) == 1
    other = folder + "/fa2-compile-other"
    with open(other, "wb") as file:
        file.write(program.replace(identity, bytes(byte ^ 255 for byte in identity)))
    os.chmod(other, 0o755)
    assert compiled()[2] and not compiled(tool=other)[2] and compiled(tool=other)[2] and compiled()[2]
    os.unlink(other)

# Files may not grow: a limit of the process, then a disk that is full.
shutil.rmtree(cache)
ptx, said, _ = compiled(prefix=("prlimit", "--fsize=20000"))
assert ptx == wanted and "that this process may write to a file; FA2_CACHE_DIR names another folder" in said, said
assert not os.path.exists(cache) or not os.listdir(cache)
os.makedirs(cache, exist_ok=True)
mounted = ("unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o size=16k none {cache} && \"$@\" && ls -A {cache} >&2", "sh")
if subprocess.run([*mounted, "true"], capture_output=True).returncode == 0:
    ptx, said, _ = compiled(prefix=mounted)
    assert ptx == wanted and "No space left on device" in said and not said.endswith("tmp\n"), said
else:
    print("no file system can be mounted here: a full one was not tried")
