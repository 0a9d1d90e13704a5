"""A folder for a session on a GPU: kernels, the programs that run them, and an index of what each file is."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from .cases import Refused
from .children import each
from .runtime import TREE, manifest_of

VERSION = 1
MOST_MIB = 64
C_LIBRARY = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux", "libfa2rt.so")
COMPILER = "compiler="
SCRIPTS = ("hardware.py", "forward.py", "backward.py")


def compiler_of(flags, compilers):
    """(the compiler that flags name, the other flags); compilers[""] where they name none."""
    named = [word for word in flags if word.startswith(COMPILER)]
    if not named:
        return compilers[""], flags
    name = named[-1].removeprefix(COMPILER)
    if not name or name not in compilers:
        known = ", ".join(sorted(filter(None, compilers))) or "none"
        raise Refused(f"{named[-1]}: --compiler has no '{name}' (known: {known})")
    return compilers[name], [word for word in flags if word not in named]


def compile_one(compilers, flags):
    """(PTX, "") or ("", why not)."""
    if isinstance(flags, Path):
        try:
            return flags.read_text(encoding="utf-8"), ""
        except OSError as error:
            return "", f"{flags}: {error.strerror}"
    compiler, own = compiler_of(flags, compilers)
    done = subprocess.run([compiler, *own, "-o", "-"], capture_output=True, text=True)
    if done.returncode:
        return "", (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[0]
    return done.stdout, ""


def first_hopper(flags):
    """The order in which kernels are compiled and checked: sm_90a's first."""
    return 0 if "sm_90a" in flags_text(flags) else 1


def flags_text(flags):
    return str(flags.name) if isinstance(flags, Path) else " ".join(f"'{w}'" if " " in w else w for w in flags)


def tune_hash(data):
    """FNV-1a, by which fa2-tune knows a file."""
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def code_of(ptx):
    """The PTX behind its leading comment, which names the schedule."""
    return ptx[ptx.index("// fa2-manifest-end"):]


class Builder:
    def __init__(self, folder, tools, runtime, local, jobs, say, compilers=()):
        """compilers: [(name, file)] beside that of `tools`"""
        self.folder, self.say, self.jobs = Path(folder), say, jobs
        self.compilers = {"": Path(tools) / "fa2-compile", **dict(compilers)}
        if not self.compilers[""].is_file():
            raise Refused(f"--tools {tools}: there is no fa2-compile (cmake --build --preset release)")
        for name, file in compilers:
            if not Path(file).is_file():
                raise Refused(f"--compiler {name}={file}: there is no such file")
        self.runtime, self.local = Path(runtime), local

    def build(self, kernels, groups):
        self.kernels_folder = self.folder / "kernels"
        shutil.rmtree(self.kernels_folder, ignore_errors=True)
        self.kernels_folder.mkdir(parents=True)
        self.copy_programs()
        wanted = {}  # text of the flags -> flags
        for flags in sorted(kernels, key=first_hopper):
            wanted.setdefault(flags_text(flags), flags)
        for group in groups:
            for _, flags in group.candidates:
                wanted.setdefault(flags_text(flags), flags)
        for flags in wanted.values():
            if not isinstance(flags, Path):
                compiler_of(flags, self.compilers)
        rows, refused = self.compile(wanted)
        index = {"fa2_session": VERSION, "kernels": list(rows.values()), "refused": refused,
                 "groups": [self.group(g, rows) for g in groups]}
        (self.folder / "index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
        size = sum(p.stat().st_size for p in self.folder.rglob("*") if p.is_file()) / 2**20
        self.say(f"{len(rows)} kernels and {len(groups)} groups in {self.folder}, {size:.1f} MiB")
        for row in refused:
            self.say(f"REFUSED {row['flags']}: {row['why']}")
        if size > MOST_MIB:
            raise Refused(f"{self.folder} has {size:.0f} MiB; the limit is {MOST_MIB}: leave kernels out (--only)")
        return 1 if refused else 0

    def compile(self, wanted):
        """({text: row of the index}, [what was refused])"""
        rows, refused, number = {}, [], {text: i for i, text in enumerate(wanted)}
        for text, (ptx, why) in each(lambda t: compile_one(self.compilers, wanted[t]), wanted, self.jobs):
            if why:
                refused.append({"flags": text, "why": why})
                continue
            file = f"k{number[text]:03}.ptx"
            (self.kernels_folder / file).write_text(ptx, encoding="utf-8")
            manifest = manifest_of(ptx.encode())
            specification = manifest["specification"]
            own = {name: specification[name] for name in ("pass", "dtype", "head_dim", "head_dim_v", "mask")}
            rows[text] = {"file": file, "flags": text, "arch": manifest["target"]["arch"], **own,
                          "deterministic": specification.get("deterministic", own["pass"] == "forward"),
                          "program": "program" in specification, "compiler": manifest["compiler"],
                          "sha256": hashlib.sha256(ptx.encode()).hexdigest()[:16],
                          "code": hashlib.sha256(code_of(ptx).encode()).hexdigest()[:16]}
        in_order = sorted(rows, key=number.get)
        return {text: rows[text] for text in in_order}, sorted(refused, key=lambda r: number[r["flags"]])

    def group(self, group, rows):
        found, codes = [], {}
        for name, flags in group.candidates:
            row = rows.get(flags_text(flags))
            entry = {"name": name, "flags": flags_text(flags)}
            if row is None:
                entry["why"] = "it was refused"
            elif row["code"] in codes:
                entry["why"] = f"its code is that of {codes[row['code']]}"
            else:
                codes[row["code"]] = name
                data = (self.kernels_folder / row["file"]).read_bytes()
                entry.update(file=row["file"], hash=tune_hash(data))
            found.append(entry)
        return {"name": group.name, "candidates": found, "lengths": group.lengths, **group.sizes}

    def copy_programs(self):
        """Two programs, their library, and these scripts."""
        for name in ("bin", "lib", "bench", "python"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()
        library = self.find("libfa2rt.so")
        shutil.copy(library, self.folder / "lib" / "libfa2rt.so.0")
        os.symlink("libfa2rt.so.0", self.folder / "lib" / "libfa2rt.so")
        for name in ("fa2-run", "fa2-tune"):
            shutil.copy(self.find(name), self.folder / "bin" / name)
        for path in [*(self.folder / "bin").iterdir(), library]:
            self.check_libraries(path)
        bench = TREE / "bench"
        for name in SCRIPTS:
            shutil.copy(bench / name, self.folder / "bench" / name)
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(bench / "fa2bench", self.folder / "bench" / "fa2bench", ignore=ignore)
        shutil.copytree(TREE / "python" / "fa2c", self.folder / "python" / "fa2c",
                        ignore=shutil.ignore_patterns("__pycache__", "*.so*", "bin"))

    def find(self, name):
        for path in (self.runtime / name, *sorted(self.runtime.glob(f"*/{name}")), *sorted(self.runtime.glob(f"*/lib/{name}"))):
            if path.is_file():
                return path
        raise Refused(f"--runtime {self.runtime}: there is no {name} (cmake --preset portable && cmake --build --preset portable)")

    def check_libraries(self, path):
        """Refuses what another machine may not have."""
        if self.local:
            return
        done = subprocess.run(["objdump", "-p", path], capture_output=True, text=True)
        needed = [line.split()[1] for line in done.stdout.splitlines() if line.strip().startswith("NEEDED")]
        others = [name for name in needed if not name.startswith(C_LIBRARY)]
        if others:
            raise Refused(f"{path} needs {', '.join(others)}, which another machine may lack; name a build of the preset 'portable' "
                          "by --runtime, or say --local for this machine")


def read_index(folder):
    path = Path(folder) / "index.json"
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror} (hardware.py build makes it)") from None
    except ValueError as error:
        raise Refused(f"{path} is damaged: {error}") from None
    if index.get("fa2_session") != VERSION:
        raise Refused(f"{path}: its version is {index.get('fa2_session')}, this script reads {VERSION}; build and run with one version")
    return index
