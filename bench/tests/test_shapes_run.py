"""Runs of lists of cases on the CPU: grouped heads, lengths that differ, bits."""

import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

try:
    import torch
except ImportError:
    torch = None

import shapes
from fa2bench import session
from fa2bench.group import Group, Sample
from fa2bench.results import Results, read_csv
from fa2bench.shape_lists import cases_of
from fa2bench.tables import terminal

if torch:
    from fa2bench import bits, inputs, run
    from fa2bench.peers import PyTorchPeer

    from tests.fake_gpu import FakeStream, cpu_kernel, on_cpu, run_options


@unittest.skipIf(torch is None, "PyTorch is not installed")
class ShapesRun(unittest.TestCase):
    def setUp(self):
        self.stream = FakeStream()

    def kernels(self, cases, label, fault=None):
        return {c.key: cpu_kernel(self.stream, c.key, f"{label}.ptx", fault, label) for c in cases}

    def measure(self, line, sets, peers=(), **changes):
        cases, results, said = cases_of(line), Results("shapes"), []
        failures, options = run.Failures(said.append), run_options(**changes)
        ours = {label: self.kernels(cases, label, fault) for label, fault in sets.items()}
        groups = [Group(session.entries_of([case], ours, {p.label: p for p in peers}), "a list") for case in cases]
        with on_cpu(self.stream), mock.patch.object(inputs, "set_count", lambda *_: 2):
            kernels = [kernel for kernels in ours.values() for kernel in kernels.values()]
            with mock.patch.object(run, "check_odd_shapes", lambda *_: 0):
                facts = run.load_and_check(kernels, None, None, failures, 0)
            run.run_groups(groups, options, facts, results, failures, said.append, Sample(2, 16))
        return results, failures

    def pytorch(self):
        """PyTorch's own attention, on no particular backend, on this stream."""
        peer = PyTorchPeer("cudnn")

        def make(head_dim, causal, dtype):
            def call(q, k, v):
                self.stream.launch(2e-4)
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
            return call
        peer.make = make
        return peer

    @unittest.skipIf(torch is None or torch.__version__ < "2.5", "no grouped heads before PyTorch 2.5")
    def test_heads_and_lengths_that_differ(self):
        line = ("head_dim=32 head_dim_v=16 heads=4 heads_kv=2 batch=2 seqlen=1,3,48 seqlen_k=48 mask=none,causal "
                "layout=bshd")
        results, failures = self.measure(line, {"base": None}, [self.pytorch()], seconds=0.1)
        self.assertEqual(failures.texts, [])
        self.assertTrue(all(record.measured for record in results.records))
        notes = {(r.case.seqlen, r.mask): r.note for r in results.records if r.label == "cuDNN"}
        self.assertRegex(notes.pop((3, "causal")), "measured without a mask")
        self.assertEqual(set(notes.values()), {""})
        self.assertIn("a list, base: right in 6 cases", terminal(results))

    def test_a_kernel_that_mixes_heads_up_is_found(self):
        def swapped(out, n):
            out[:, [0, 1]] = out[:, [1, 0]]
        results, failures = self.measure("head_dim=32 heads=8 heads_kv=2 seqlen=1 seqlen_k=48", {"base": swapped})
        self.assertFalse(results.records[0].measured)
        self.assertRegex(failures.texts[0], "batch entry 0, head 0, row 0: error")

    def test_a_wrong_case_leaves_the_others(self):
        def wrong(out, n):
            if out.shape[2] == 8:
                out.zero_()
        results, failures = self.measure("head_dim=32 heads=1 seqlen=8,9", {"base": wrong})
        self.assertEqual([r.measured for r in results.records], [False, True])
        self.assertEqual(len(failures.texts), 1)

    def test_bits_of_two_sets_and_of_an_entry_alone(self):
        def other(out, n):
            bits.bits_of(out)[1, 0, 2, 5] ^= 1

        def alone(out, n):
            if out.shape[0] == 1:
                bits.bits_of(out)[0, 0, 0, 0] ^= 1
        line = "head_dim=32 heads=2 batch=2 seqlen=8"
        sets = {"base": None, "same": None, "other": lambda out, n: out.shape[0] == 2 and other(out, n), "alone": alone}
        results, failures = self.measure(line, sets, bits=True, untimed=True)
        found = {r.label: r.bits for r in results.records}
        self.assertEqual((found["base"], found["same"]), ("same", "same"))
        self.assertRegex(found["other"], "^set 0: out has 1 of 1024 elements other, the first at batch entry 1, "
                                         "head 0, row 2, column 5, than those of base; out has 1 of .* alone$")
        self.assertRegex(found["alone"], "^out has 1 of 512 elements other, .* entry 0, head 0, row 0, .* alone$")
        self.assertEqual(len(failures.texts), 3)
        self.assertFalse(any(r.measured for r in results.records))
        self.assertIn("alone: bits other in 1 of 1 cases", terminal(results))

    def test_a_peers_bits_are_its_own(self):
        line = "head_dim=32 heads=2 seqlen=8"
        cases, results, failures = cases_of(line), Results("shapes"), run.Failures(lambda text: None)

        def other(out, n):
            bits.bits_of(out)[0, 0, 0, 0] ^= 1
        entries = session.entries_of(cases, {"base": self.kernels(cases, "base")},
                                     {"trial": self.kernels(cases, "trial", other)})
        with on_cpu(self.stream):
            run.run_groups([Group(entries)], run_options(bits=True, untimed=True), {}, results, failures,
                           lambda text: None)
        self.assertEqual(failures.texts, [])
        self.assertEqual({r.label: r.bits for r in results.records}, {"base": "same", "trial": ""})

    def test_from_the_command_line(self):
        def zeros(*shape, device=None, **how):
            return torch.empty(*shape, **how).zero_()
        ours = {label: self.kernels(cases_of("head_dim=32 heads=1 seqlen=1"), label) for label in ("base", "new")}
        library = SimpleNamespace(open_device=lambda name: None)
        with tempfile.TemporaryDirectory() as folder, on_cpu(self.stream), redirect_stdout(StringIO()) as printed, \
                redirect_stderr(StringIO()), mock.patch.object(torch, "zeros", zeros), \
                mock.patch.object(torch.cuda, "is_available", lambda: True), \
                mock.patch.multiple(session, open_library=lambda _: library, find_sets=lambda *_: (ours, {}),
                                    machine_line=lambda *_: "a machine"):
            cases = Path(folder) / "mine.txt"
            cases.write_text("head_dim=32 heads=2 batch=2 seqlen=64 values=normal,x3\n")
            status = shapes.main(["a", "--shapes", str(cases), "--bits", "--seconds", "0.01", "--out", folder])
            self.assertEqual(status, 0)
            results = read_csv(Path(folder) / "shapes.csv")
        self.assertEqual([(r.label, r.values, r.list, r.bits) for r in results.records],
                         [(label, values, "mine", "same") for values in ("normal", "x3") for label in ("base", "new")])
        self.assertEqual(results.machine, "a machine")
        self.assertIn("new / its normal", printed.getvalue())

    def test_zeros_have_signs(self):
        zeros = torch.zeros(1, 1, 2, 3)
        self.assertEqual(bits.difference("lse", zeros, zeros), "")
        self.assertRegex(bits.difference("lse", zeros, -zeros), "6 of 6 elements")


if __name__ == "__main__":
    unittest.main()
