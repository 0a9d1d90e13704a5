"""The half of a session that needs the GPU: checks, bits, times, sanitizers, each kernel in a process of its own."""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from . import children
from .cases import Refused
from .session_sheets import Sheet, shapes_of, write_report

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
BITS_CASE = ("--heads", "4", "--seqlen-q", "300", "--seqlen-k", "330")
BATCHES = (2, 5)  # more than one each, so that what programs read is drawn alike
NO_DEVICE = 3  # fa2-run's exit status


class Session:
    def __init__(self, folder, index, options, say):
        self.folder, self.index, self.options, self.say = Path(folder), index, options, say
        self.results = Path(options.results or self.folder / "results")
        self.results.mkdir(parents=True, exist_ok=True)
        self.end = time.monotonic() + options.seconds
        self.failed = 0
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(self.folder / "lib"),
                    "CUDA_CACHE_MAXSIZE": os.environ.get("CUDA_CACHE_MAXSIZE", str(4 << 30))}

    @property
    def left(self):
        return self.end - time.monotonic()

    def kernels(self):
        """Those whose flags have --only's text, and those of groups whose name has it."""
        named = {c.get("file") for group in self.index["groups"] if self.options.only in group["name"] for c in group["candidates"]}
        return [row for row in self.index["kernels"] if self.options.only in row["flags"] or row["file"] in named]

    def program(self, name):
        return self.folder / "bin" / name

    def kernel_path(self, row):
        return self.folder / "kernels" / row["file"]

    def fa2_run(self, row, *more, prefix=(), limit=None):
        """(how it ended, seconds)"""
        limit = min(limit or self.options.patience, self.left)
        began = time.monotonic()
        ended = children.run([*prefix, self.program("fa2-run"), self.kernel_path(row), "--device", self.options.device, *more],
                             limit, self.env)
        if ended.status == NO_DEVICE and not prefix:
            raise Refused(f"{row['file']}: {ended.told}")
        return ended, time.monotonic() - began

    def note(self, sheet, row, outcome, seconds, text, **more):
        sheet.add(file=row["file"], sha256=row["sha256"], flags=row["flags"], outcome=outcome, seconds=f"{seconds:.1f}", text=text, **more)
        if outcome != "passed":
            self.failed += 1
            self.say(f"{outcome.upper()} {row['file']} ({row['flags']}): {text}")

    def sweep(self, title, sheet, rows, work, at_once):
        """work(row) -> (outcome, seconds, text) for what the sheet lacks. What hung beside others gets a second try alone."""
        todo = [row for row in rows if not sheet.has(sha256=row["sha256"], flags=row["flags"])]
        self.say(f"{title}: {len(todo)} of {len(rows)} kernels, {at_once} at a time")
        again = []

        def unless_over(row):
            return work(row) if self.left > 0 else None

        for row, found in children.each(unless_over, todo, at_once):
            if found and found[0] == "hung" and at_once > 1:
                again.append(row)
            elif found:
                self.note(sheet, row, *found)
        for row in again:
            found = unless_over(row)
            if found:
                self.note(sheet, row, *found)
        done = sum(sheet.has(sha256=row["sha256"], flags=row["flags"]) for row in rows)
        asked = {(row["sha256"], row["flags"]) for row in rows}
        passed = sum(r["outcome"] == "passed" and (r["sha256"], r["flags"]) in asked for r in sheet.rows)
        self.say(f"{title}: {passed} of {done} passed" + ("" if done == len(rows) else f", {len(rows) - done} not reached"))
        write_report(self.index, self.results)

    # --- Checks ---------------------------------------------------------------------------------

    def check(self):
        sheet = Sheet(self.results, "check")

        def work(row):
            ended, seconds = self.fa2_run(row, "--cases", str(self.options.cases), "--json")
            if ended.status is None:
                return "hung", seconds, ended.why(self.options.patience)
            try:
                sweep = json.loads(ended.out)["sweep"]
            except (ValueError, KeyError, TypeError):
                return "failed", seconds, self.said(ended)
            text = f"worst row {sweep['worst_ratio']:.2f} of what is allowed"
            if sweep["failed"]:
                first = sweep["failures"][0]
                text = f"{sweep['failed']} of {sweep['failed'] + sweep['passed']} cases; {first['failures'][0]}; {json.dumps(first['configuration'])}"
            return ("failed" if ended.status else "passed"), seconds, text
        self.sweep("checks", sheet, self.kernels(), work, self.options.processes)

    def said(self, ended):
        try:
            return json.loads(ended.out)["error"]
        except (ValueError, KeyError, TypeError):
            return ended.why(self.options.patience)

    # --- Bits -----------------------------------------------------------------------------------

    def bits(self):
        sheet = Sheet(self.results, "bits")
        rows = [row for row in self.kernels() if row["deterministic"]]

        def work(row):
            with tempfile.TemporaryDirectory() as scratch:
                return self.bits_of(row, Path(scratch))
        self.sweep("the same bits", sheet, rows, work, self.options.processes)

    def bits_of(self, row, scratch):
        outputs = ("out", "lse") if row["pass"] == "forward" else ("dq", "dk", "dv")
        first, spent = {}, 0.0
        for batch in BATCHES:
            save = [word for name in outputs for word in (f"--save-{name}", str(scratch / f"{name}{batch}.npy"))]
            more = ["--same-bits", str(self.options.repeats)] if batch == BATCHES[-1] else []
            ended, seconds = self.fa2_run(row, *BITS_CASE, "--batch", str(batch), "--repeats", "0", *save, *more, "--json")
            spent += seconds
            if ended.status is None:
                return "hung", spent, ended.why(self.options.patience)
            if ended.status:
                return "failed", spent, self.failure(ended)
            for name in outputs:
                entry = first_entry(scratch / f"{name}{batch}.npy", batch)
                if first.setdefault(name, entry) != entry:
                    return "failed", spent, f"batch entry 0 has other bits of {name} in a batch of {batch} than in one of {BATCHES[0]}"
        return "passed", spent, f"{self.options.repeats} launches, batches of {' and '.join(map(str, BATCHES))}"

    def failure(self, ended):
        try:
            said = json.loads(ended.out)
            return said["error"] if "error" in said else said["check"]["failures"][0]
        except (ValueError, KeyError, TypeError, IndexError):
            return ended.why(self.options.patience)

    # --- Times ----------------------------------------------------------------------------------

    def times(self):
        """fa2-tune measures a bundle of the groups' kernels that did not fail before."""
        wrong = {row["sha256"] for name in ("check", "bits") for row in Sheet(self.results, name).rows if row["outcome"] != "passed"}
        with tempfile.TemporaryDirectory() as bundle:
            count = self.write_bundle(Path(bundle), wrong)
            if not count:
                self.say("times: nothing to measure")
                return
            device = self.options.device + (":sm_90" if self.options.device == "sim" else "")
            self.say(f"times: {count} candidates, {self.left:.0f} s at the most")
            ended = children.run([self.program("fa2-tune"), "measure", bundle, "-o", self.results / "times.jsonl", "--device", device,
                                  "--seconds", f"{max(1, self.left):.0f}", "--rounds", self.options.rounds, "--patience", self.options.patience,
                                  *(["--cubins", self.options.cubins] if self.options.cubins else [])],
                                 self.left + 2 * self.options.patience, self.env)
        for line in ended.err.splitlines():
            self.say(line)
        if ended.status:
            self.failed += 1
            self.say(f"FAILED times: {ended.why(self.options.seconds)}")
        write_report(self.index, self.results)

    def write_bundle(self, folder, wrong):
        kernels = {row["file"]: row for row in self.index["kernels"]}
        lists, lines = [], []
        for group in self.index["groups"]:
            fit = [c for c in group["candidates"] if "file" in c and kernels[c["file"]]["sha256"] not in wrong]
            if self.options.only and not any(self.options.only in text for c in fit for text in (group["name"], c["flags"])):
                continue
            if len(fit) < 2 or fit[0] is not group["candidates"][0]:
                self.say(f"times: group {group['name']} is left out: its baseline, or all of its candidates, cannot be measured")
                continue
            for candidate in fit:
                row = kernels[candidate["file"]]
                problem = {name: row[name] for name in ("pass", "arch", "dtype", "head_dim", "head_dim_v", "mask")}
                lines.append({"problem": {**problem, "group": group["name"]}, "schedule": candidate["name"],
                              "source": "today" if candidate is fit[0] else "list", "file": row["file"], "hash": candidate["hash"],
                              "model_ms": [], "shapes": len(lists)})
                link = folder / row["file"]
                if not link.exists():
                    link.symlink_to(self.kernel_path(row).resolve())
            lists.append([configuration(text) for text in shapes_of(group, kernels[fit[0]["file"]]["head_dim"])])
        compiler = self.index["kernels"][0]["compiler"] if lines else ""
        text = json.dumps({"fa2_tune_bundle": 1, "compiler": compiler, "shapes": lists, "kernels": lines, "refused": []})
        (folder / "bundle.json").write_text(text, encoding="utf-8")
        return len(lines)

    def peers(self):
        """bench's scripts measure the groups' baselines beside PyTorch's backends, where PyTorch is."""
        kernels = {row["file"]: row for row in self.index["kernels"]}
        for pass_ in ("forward", "backward"):
            bases = {}
            for group in self.index["groups"]:
                row = kernels.get(group["candidates"][0].get("file"))
                if row and row["pass"] == pass_ and not row["program"] and self.options.only in row["flags"]:
                    bases.setdefault((row["head_dim"], row["head_dim_v"], row["mask"], row["dtype"]), row)
            square = [row for key, row in bases.items() if key[0] == key[1] and key[3] == "bf16" and key[2] in ("none", "causal")]
            if not square or self.left < 20:
                continue
            with tempfile.TemporaryDirectory() as folder:
                for row in square:
                    (Path(folder) / row["file"]).symlink_to(self.kernel_path(row).resolve())
                dims = ",".join(str(d) for d in sorted({row["head_dim"] for row in square}))
                out = {"forward": ["--out", self.results / "peers"], "backward": ["--csv", self.results / "peers-backward.csv"]}[pass_]
                ended = children.run([sys.executable, self.folder / "bench" / f"{pass_}.py", f"ours={folder}", "--runtime",
                                      self.folder / "lib" / "libfa2rt.so", "--head-dims", dims, "--seqlens", "2048,8192", *out],
                                     self.left, self.env)
            (self.results / f"peers-{pass_}.txt").write_text(ended.out + ended.err, encoding="utf-8")
            self.say(f"peers, {pass_}: " + ("done" if ended.status == 0 else ended.why(self.left)))

    # --- Sanitizers -----------------------------------------------------------------------------

    def sanitize(self):
        program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
        if not self.options.sanitize:
            return
        if not program:
            self.say("sanitizers: compute-sanitizer was not found; left out")
            return
        sheets = Sheet(self.results, "sanitize")
        for tool in TOOLS:
            todo = [row for row in self.sample() if not sheets.has(sha256=row["sha256"], tool=tool)]

            def work(row):
                return self.fa2_run(row, "--heads", "2", "--seqlen-q", "150", "--seqlen-k", "200", "--repeats", "0",
                                    prefix=(program, "--tool", tool, "--error-exitcode", "99"), limit=3 * self.options.patience) \
                    if self.left > 0 else None
            for row, found in children.each(work, todo, min(4, self.options.processes)):
                if found is None:
                    continue
                ended, seconds = found
                summary = [line for line in ended.out.splitlines() if "ERROR SUMMARY" in line or "error" in line.lower()]
                outcome = "hung" if ended.status is None else "failed" if ended.status else "passed"
                self.note(sheets, row, outcome, seconds, summary[0].strip("= ") if summary else ended.told, tool=tool)
        self.say(f"sanitizers: {sum(r['outcome'] == 'passed' for r in sheets.rows)} of {len(sheets.rows)} runs passed")
        write_report(self.index, self.results)

    def sample(self):
        """As many kernels as are asked for, evenly over architectures, passes and head dims."""
        rows = sorted(self.kernels(), key=lambda r: (r["arch"], r["pass"], r["head_dim"], r["file"]))
        count = min(self.options.sanitize, len(rows))
        return [rows[(2 * i + 1) * len(rows) // (2 * count)] for i in range(count)]


def configuration(text):
    """fa2-tune's "BATCHxHEADS/HEADS_KVxQUERIESxKEYS" as its bundle has it."""
    batch, heads, queries, keys = text.split("x")
    heads, heads_kv = heads.split("/")
    names = ("batch", "heads", "heads_kv", "seqlen_q", "seqlen_k")
    return dict(zip(names, map(int, (batch, heads, heads_kv, queries, keys))))


def first_entry(path, batch):
    """The bytes of the first of a .npy file's `batch` entries."""
    data = Path(path).read_bytes()
    if data[:6] != b"\x93NUMPY":
        raise Refused(f"{path} is no .npy file")
    begin = (10 + int.from_bytes(data[8:10], "little")) if data[6] == 1 else 12 + int.from_bytes(data[8:12], "little")
    return data[begin:begin + (len(data) - begin) // batch]


STEPS = {"check": Session.check, "bits": Session.bits, "times": Session.times, "peers": Session.peers, "sanitize": Session.sanitize}


def run(folder, index, options, say):
    """The exit status: 1 where something failed."""
    session = Session(folder, index, options, say)
    if not session.kernels():
        raise Refused(f"--only '{options.only}': neither a kernel's flags nor a group's name has it")
    try:
        for step in options.steps:
            if session.left <= 0:
                say(f"the time is over before {step}; the same command goes on from here")
                break
            STEPS[step](session)
    finally:
        write_report(index, session.results)
    say(f"{session.results / 'report.md'}: {session.failed} failures")
    return 1 if session.failed else 0
