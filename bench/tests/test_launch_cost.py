import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path

import launch_cost
from fa2bench.cases import Refused
from fa2bench.runtime import Library

from tests.fake import manifest, write_ptx

try:
    import torch
except ImportError:
    torch = None


class Costs(unittest.TestCase):
    def test_takes_turns_and_waits_after_each_burst(self):
        now, said, calls = [0], [], 2 * launch_cost.BURST + 10

        def spend(label, microseconds):
            def run():
                said.append(label)
                now[0] += 1000 * microseconds
            return run

        def wait():
            said.append("wait")
            now[0] += 10**9  # is nobody's

        times = launch_cost.costs({"a": spend("a", 5), "b": spend("b", 7)}, calls, wait, lambda: now[0])
        self.assertEqual(times, {"a": [5.0] * calls, "b": [7.0] * calls})
        full, rest = launch_cost.BURST, calls - 2 * launch_cost.BURST
        self.assertEqual(said, [*["a"] * full, "wait", *["b"] * full, "wait",
                                *["b"] * full, "wait", *["a"] * full, "wait",
                                *["a"] * rest, "wait", *["b"] * rest, "wait"])

    def test_table(self):
        text = launch_cost.table([("x", {"prepared": [3, 1, 2], "SDPA": [10.0] * 9 + [90]})])
        self.assertIn("| x | 2.0 (3.0) | - | - | - | - | 10.0 (90.0) |", text)

    def test_kernels_come_from_their_manifests(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(Refused, "expected a folder with forward kernels"):
                launch_cost.find(Path(folder))
            specification = manifest()["specification"]
            write_ptx(Path(folder, "a.ptx"), manifest(128, "causal"))
            write_ptx(Path(folder, "b.ptx"), manifest(specification={**specification, "pass": "backward"}))
            (path, found), = launch_cost.find(Path(folder))
            self.assertEqual(launch_cost.row_label(path, found), "a.ptx: sm_80 bf16 128 causal")
            Path(folder, "c.ptx").write_text("no manifest")
            with self.assertRaisesRegex(Refused, r"c\.ptx: it has no manifest"):
                launch_cost.find(Path(folder))


def simulator_is_there():
    try:
        return bool(Library(None).calls.fa2rtHasSimulator())
    except Refused:
        return False


@unittest.skipUnless(torch and simulator_is_there(), "it needs PyTorch and a runtime with the simulator")
class OnTheSimulator(unittest.TestCase):
    def test_a_whole_run(self):
        kernel = Path(__file__).resolve().parents[2] / "test" / "Unit" / "Runtime" / "kernels" / "naive_forward.ptx"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "naive.ptx").write_bytes(kernel.read_bytes())
            arguments = [folder, "--device", "sim", "--calls", "2", "--seqlen", "5", "--heads", "2"]
            said = io.StringIO()
            environment = os.environ.get("FA2RT_LIBRARY")
            with contextlib.redirect_stdout(said):
                self.assertEqual(launch_cost.main(arguments), 0)
                self.assertEqual(launch_cost.main([*arguments, "--limit", "0"]), 1)
            if environment is None:
                os.environ.pop("FA2RT_LIBRARY")
        self.assertRegex(said.getvalue(), r"\| naive.ptx: sm_80 bf16 16/8 causal \| \d+\.\d .* \| \d+\.\d ")
        self.assertRegex(said.getvalue(), r"PyTorch .* with(out)? DLPack's C exchange functions, ")
        self.assertIn("us; the limit is 0", said.getvalue())


if __name__ == "__main__":
    unittest.main()
