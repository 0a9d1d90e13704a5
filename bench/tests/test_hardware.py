"""Sessions on a GPU: lists, children, sheets; and a whole session on the simulator, with kernels that hang and die."""

import contextlib
import csv
import io
import json
import os
import shutil
import tempfile
import time
import unittest
from pathlib import Path

import hardware
from fa2bench import children
from fa2bench.cases import Refused
from fa2bench.kernel_lists import read_list
from fa2bench.runtime import manifest_of
from fa2bench.session_run import first_entry
from fa2bench.session_sheets import Sheet, read_rows, time_rows, write_report

TOOLS = Path(os.environ.get("FA2_TOOLS", ""))
RUNTIME = os.environ.get("FA2RT_LIBRARY", "")
HAVE_TOOLS = os.environ.get("FA2_TOOLS") and RUNTIME and all((TOOLS / t).exists() for t in ("fa2-compile", "fa2-run", "fa2-tune"))

LIST = """\
# two kernels to check
--head-dim 16
--head-dim 16 --mask causal

group tiles m=none: --head-dim 16 --mask {m}
  at 48 64x63 tokens=96 hidden=32
  base:
  small: --block-q 16 --warps 1
  same: --mask none
"""


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name, text, mode=0o644):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path


class Lists(Scratch):
    def test_a_group_for_each_combination(self):
        kernels, groups = read_list(self.file("list", LIST.replace("m=none", "m=none,causal")))
        self.assertEqual(kernels, [["--head-dim", "16"], ["--head-dim", "16", "--mask", "causal"]])
        self.assertEqual([g.name for g in groups], ["tiles-none", "tiles-causal"])
        self.assertEqual(groups[1].candidates[1], ("small", "--head-dim 16 --mask causal --block-q 16 --warps 1".split()))
        self.assertEqual((groups[0].lengths, groups[0].sizes), (((48, 48), (64, 63)), {"tokens": 96, "hidden": 32}))

    def test_the_lists_of_the_project_are_read(self):
        bench = Path(hardware.BENCH)
        self.assertGreater(len(read_list(hardware.GRID)[0]), 100)
        for path in sorted((bench / "hardware").glob("*.txt")):
            self.assertTrue(read_list(path)[1], path)

    def test_errors_name_the_line(self):
        for text, why in (("  base:\n", "line 1: an indented line belongs to a group"),
                          ("group a: --x\n  one\n", "line 2: expected 'NAME: FLAGS'"),
                          ("group a: --x\n  at 0\n  b:\n  c:\n", "line 2: a length is '0'"),
                          ("group a: --x\n  at 5x\n", "line 2: a length is ''"),
                          ("group a: --x\n  at 5 rows=3\n", "line 2: 'rows' is none of tokens, hidden"),
                          ("group a: --x\n  one:\n", "the group 'a' has 1 candidates"),
                          ("group a: --x\n  b:\n  b:\n", "line 3: the group has a candidate 'b' already"),
                          ("group a: {y}\n  b:\n  c:\n", "'y' stands in braces"),
                          ("group a: --x\n  b:\n  c:\ngroup a: --x\n  b:\n  c:\n", "several groups are called 'a'"),
                          ("group\n", "expected 'group NAME")):
            with self.subTest(text), self.assertRaisesRegex(Refused, why):
                read_list(self.file("list", text.replace("group\n", "group :\n")))


class Children(Scratch):
    def test_what_hangs_is_killed_with_what_it_started(self):
        script = self.file("hang", "#!/bin/sh\nsleep 1000 &\necho $! > \"$1\"\nwait\n", 0o755)
        began = time.monotonic()
        ended = children.run([script, self.folder / "pid"], 1)
        self.assertIsNone(ended.status)
        self.assertLess(time.monotonic() - began, 9)
        self.assertIn("killed", ended.why(1))
        pid = int((self.folder / "pid").read_text())
        state = Path(f"/proc/{pid}/stat")
        self.assertTrue(not state.exists() or state.read_text().split()[2] == "Z")

    def test_how_the_others_end(self):
        self.assertEqual(children.run(["sh", "-c", "echo a; exit 4"], 9).status, 4)
        self.assertIn("SIGSEGV", children.run(["sh", "-c", "kill -SEGV $$"], 9).why(9))
        self.assertIn("No such file", children.run([self.folder / "none"], 9).why(9))


def index(**changes):
    kernel = {"file": "k000.ptx", "flags": "--head-dim 16", "sha256": "a", "head_dim": 16, "deterministic": True}
    group = {"name": "g", "lengths": [[32, 32]], "tokens": 64, "hidden": 32,
             "candidates": [{"name": "base", "flags": "--head-dim 16", "file": "k000.ptx", "hash": "1"},
                            {"name": "fast", "flags": "--head-dim 16 --warps 1", "file": "k000.ptx", "hash": "2"},
                            {"name": "same", "flags": "", "why": "its code is that of base"}]}
    return {"fa2_session": 1, "kernels": [kernel], "groups": [group], "refused": [], **changes}


class Sheets(Scratch):
    def test_rows_stay_and_a_half_one_goes(self):
        sheet = Sheet(self.folder, "bits")
        sheet.add(file="k000.ptx", sha256="a", flags="--x 'a, b'", outcome="passed", seconds="1.0", text="said \"this\"")
        with open(sheet.path, "a") as file:
            file.write("k001.ptx,b,--y,pas")
        again = Sheet(self.folder, "bits")
        self.assertTrue(again.has(sha256="a"))
        self.assertFalse(again.has(sha256="b"))
        again.add(file="k001.ptx", sha256="b", outcome="failed")
        self.assertEqual([row["outcome"] for row in read_rows(sheet.path)], ["passed", "failed"])

    def visits(self, candidate, times):
        return [json.dumps({"time": {"kernel": f"{candidate} in g", "shape": "2x2/2x32x32", "ms": ms, "launches": 3, "flops": 1e9,
                                     "clock_mhz": 1000}}) for ms in times]

    def test_a_speed_is_the_baselines_time_over_ones_own(self):
        journal = self.file("times.jsonl", "\n".join(
            ['{"fa2_tune_results": 1, "device": "a GPU"}', '{"check": {"kernel": "1 in g", "passed": true}}',
             *self.visits("1", [2, 9, 2]), *self.visits("2", [1, 1, 1.5]), '{"time": {"ker']))
        device, rows = time_rows(index(), journal)
        self.assertEqual(device, "a GPU")
        self.assertEqual([(r["candidate"], r.get("ms"), r.get("speed")) for r in rows],
                         [("base", "2.00000", "1.0000"), ("fast", "1.00000", "2.0000"), ("same", None, None)])
        write_report(index(), self.folder)
        text = (self.folder / "report.md").read_text()
        self.assertIn("| fast | 1.00000 (2.0000) |", text)
        self.assertIn("| same: its code is that of base | - |", text)

    def test_what_is_measured_again_counts_alone(self):
        again = json.dumps({"again": {"group": "g", "shape": "2x2/2x32x32"}})
        other = json.dumps({"again": {"group": "g", "shape": "1x2/2x64x64"}})
        journal = self.file("times.jsonl", "\n".join(['{"device": "a GPU"}', *self.visits("2", [7]), again, *self.visits("1", [2, 2]),
                                                      *self.visits("2", [1, 1]), other, ""]))
        self.assertEqual([(r["candidate"], r.get("ms"), r.get("speed")) for r in time_rows(index(), journal)[1]],
                         [("base", "2.00000", "1.0000"), ("fast", "1.00000", "2.0000"), ("same", None, None)])

    def test_a_wrong_candidate_has_no_time(self):
        journal = self.file("times.jsonl", '{"device": "a GPU"}\n{"check": {"kernel": "2 in g", "passed": false, "why": "row 3"}}\n')
        self.assertIn(("fast", "row 3"), [(r["candidate"], r.get("text")) for r in time_rows(index(), journal)[1]])


class Entries(Scratch):
    def test_the_first_of_a_batch(self):
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}\n"
        path = self.folder / "a.npy"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(range(24)))
        self.assertEqual(first_entry(path, 3), bytes(range(8)))


@unittest.skipUnless(HAVE_TOOLS, "it needs fa2-compile, fa2-run and fa2-tune (set FA2_TOOLS and FA2RT_LIBRARY)")
class OnTheSimulator(Scratch):
    """One folder, built once: fa2-run is replaced where kernels are to fail."""

    def hardware(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            status = hardware.main([str(a) for a in arguments])
        self.said = said.getvalue()
        return status

    def build(self, text=LIST, more=()):
        runtime = self.folder / "runtime"
        runtime.mkdir()
        for path in (TOOLS / "fa2-run", TOOLS / "fa2-tune", Path(RUNTIME).resolve()):
            (runtime / ("libfa2rt.so" if ".so" in path.name else path.name)).symlink_to(path.resolve())
        return self.hardware("build", self.folder / "s", "--tools", TOOLS, "--runtime", runtime, "--local", "--no-grid", "--list",
                             self.file("list", text), "--jobs", 2, *more)

    def run_steps(self, names, *more):
        return self.hardware("run", self.folder / "s", "--device", "sim", "--steps", names, "--cases", 2, "--repeats", 2, "--rounds", 2,
                             "--processes", 2, *more)

    def outcomes(self, sheet):
        with open(self.folder / "s" / "results" / f"{sheet}.csv", newline="") as file:
            return {row["file"]: row["outcome"] for row in csv.DictReader(file)}

    def test_a_session(self):
        self.assertEqual(self.build(), 0, self.said)
        built = json.loads((self.folder / "s" / "index.json").read_text())
        self.assertEqual([row["flags"] for row in built["kernels"][:2]], ["--head-dim 16", "--head-dim 16 --mask causal"])
        same = built["groups"][0]["candidates"][2]
        self.assertEqual(same["why"], "its code is that of base")
        self.assertEqual(self.run_steps("check,bits,times"), 0, self.said)
        kernels = len(built["kernels"])
        self.assertEqual(list(self.outcomes("check").values()), ["passed"] * kernels)
        self.assertEqual(list(self.outcomes("bits").values()), ["passed"] * kernels)
        with open(self.folder / "s" / "results" / "times.csv", newline="") as file:
            times = {row["candidate"]: row for row in csv.DictReader(file) if "x48x48" in row["shape"]}
        self.assertEqual(times["base"]["speed"], "1.0000")
        self.assertGreater(float(times["small"]["speed"]), 0)
        self.assertEqual(times["small"]["shape"], "2x2/2x48x48")
        report = (self.folder / "s" / "results" / "report.md").read_text()
        self.assertIn(f"{kernels} of {kernels}: {kernels} passed.", report)
        # Nothing is done twice.
        before = {p.name: p.read_bytes() for p in (self.folder / "s" / "results").iterdir()}
        self.assertEqual(self.run_steps("check,bits,times"), 0, self.said)
        self.assertIn(f"checks: 0 of {kernels} kernels", self.said)
        self.assertEqual({p.name: p.read_bytes() for p in (self.folder / "s" / "results").iterdir()}, before)

    def test_kernels_that_hang_die_and_are_wrong(self):
        self.assertEqual(self.build(LIST.replace("# two", "--head-dim 24\n--head-dim 32\n# two")), 0, self.said)
        program = self.folder / "s" / "bin" / "fa2-run"
        program.rename(program.with_name("real"))
        self.file("s/bin/fa2-run", f"""#!/bin/sh
case "$1" in
*k000.ptx) sleep 1000 & wait;;
*k001.ptx) kill -SEGV $$;;
*k002.ptx) echo '{{"sweep": {{"passed": 1, "failed": 1, "worst_ratio": 3, "failures": [{{"configuration": {{"batch": 2}}, "failures": ["row 5"]}}]}}}}'; exit 1;;
esac
exec {program.with_name("real")} "$@"
""", 0o755)
        self.assertEqual(self.run_steps("check", "--patience", 8), 1)
        outcomes = self.outcomes("check")
        self.assertEqual([outcomes[f"k00{i}.ptx"] for i in range(4)], ["hung", "failed", "failed", "passed"])
        report = (self.folder / "s" / "results" / "report.md").read_text()
        for text in ("it did not end within 8 s and was killed", "it died of SIGSEGV", "1 of 2 cases; row 5"):
            self.assertIn(text, report)
        # What was wrong is not timed: k002 is the group's baseline.
        self.assertEqual(self.run_steps("times"), 0, self.said)
        self.assertIn("group tiles-none is left out", self.said)

    def test_bits_of_a_batch(self):
        self.assertEqual(self.build("--head-dim 16\n"), 0, self.said)
        program = self.folder / "s" / "bin" / "fa2-run"
        program.rename(program.with_name("real"))
        # A batch of five gets other inputs: its first entry has other bits.
        self.file("s/bin/fa2-run", f"""#!/bin/sh
case "$*" in *'--batch 5'*) exec {program.with_name("real")} "$@" --seed 9;; esac
exec {program.with_name("real")} "$@"
""", 0o755)
        self.assertEqual(self.run_steps("bits"), 1)
        self.assertIn("batch entry 0 has other bits of out in a batch of 5", self.said)

    def test_all_that_kernels_read_is_there_for_times(self):
        self.assertEqual(self.build("group extras: --pass backward --head-dim 16\n  at 48 tokens=48 hidden=32\n  none:\n"
                                    "  lse: --grad-lse argument\n  dropout: --dropout argument\n  sink: --sink head --grads sink\n"), 0, self.said)
        self.assertEqual(self.run_steps("times"), 0, self.said)
        with open(self.folder / "s" / "results" / "times.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["candidate"] for row in rows if row["speed"]], ["none", "lse", "dropout", "sink"], rows)

    def test_a_groups_name_picks_its_kernels(self):
        self.assertEqual(self.build("--head-dim 24\ngroup tiles mask=none: --head-dim 16 --mask {mask}\n  at 48 tokens=96 hidden=32\n  base:\n  small: --block-kv 16\n"),
                         0, self.said)
        self.assertEqual(self.run_steps("check,times", "--only", "tiles"), 0, self.said)
        self.assertIn("checks: 2 of 2 kernels", self.said)

    def test_kernels_of_another_compiler(self):
        older = self.file("older", f'#!/bin/sh\nexec {TOOLS / "fa2-compile"} --block-kv 16 "$@"\n', 0o755)
        text = "group tiles: --head-dim 16\n  at 48 tokens=96 hidden=32\n  now:\n  then: compiler=older\n"
        self.assertEqual(self.build(text, ["--compiler", f"older={older}"]), 0, self.said)
        built = json.loads((self.folder / "s" / "index.json").read_text())
        self.assertEqual([c["flags"] for c in built["groups"][0]["candidates"]], ["--head-dim 16", "--head-dim 16 compiler=older"])
        tiles = [manifest_of((self.folder / "s" / "kernels" / row["file"]).read_bytes())["schedule"]["block_kv"] for row in built["kernels"]]
        self.assertNotEqual(tiles[0], 16)
        self.assertEqual(tiles[1], 16)
        for more, said in (([], "compiler=older: --compiler has no 'older' (known: none)"),
                           (["--compiler", f"new={older}"], "compiler=older: --compiler has no 'older' (known: new)"),
                           (["--compiler", "older=/none"], "--compiler older=/none: there is no such file")):
            shutil.rmtree(self.folder / "runtime")
            self.assertEqual(self.build(text, more), 2)
            self.assertIn(said, self.said)

    def test_what_is_refused_is_named(self):
        self.assertEqual(self.build("--head-dim 16\n--head-dim 17\n"), 1)
        self.assertIn("REFUSED --head-dim 17: ", self.said)
        self.assertEqual(self.hardware("run", self.folder / "s", "--only", "sm_90a"), 2)
        self.assertIn("neither a kernel's flags nor a group's name has it", self.said)
        self.assertEqual(self.hardware("run", self.folder), 2)
        self.assertIn("hardware.py build makes it", self.said)


if __name__ == "__main__":
    unittest.main()
