"""Checks and runs on the CPU, with a stand-in for the clock and stream of a GPU."""

import math
import unittest
from types import SimpleNamespace

try:
    import torch
except ImportError:
    torch = None

from fa2bench.results import Results

if torch:
    from fa2bench import measure, run
    from fa2bench.cases import Case
    from fa2bench.check import HeadReference, WrongResult, ulp
    from fa2bench.group import Group

    from tests.fake_gpu import FakeStream, attention, cpu_kernel, on_cpu, run_options


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Check(unittest.TestCase):
    def judge(self, mask="causal", seqlen_q=100, seqlen_k=100, change=None, dtype=None):
        torch.manual_seed(0)
        dtype = dtype or torch.bfloat16
        q, k, v = (torch.randn(n, 64).to(dtype) for n in (seqlen_q, seqlen_k, seqlen_k))
        reference = HeadReference(q, k, v, mask, 0.125, rows_at_once=37)
        out, lse = attention(q, k, v, mask, 0.125)
        if change:
            change(out, lse)
        return reference.judge(out, lse)

    def test_attention_passes(self):
        for mask, seqlen_q, seqlen_k in (("none", 100, 75), ("causal", 100, 100), ("causal", 50, 90),
                                         ("causal", 90, 50), ("causal_top_left", 90, 50)):
            with self.subTest(mask=mask, seqlen_q=seqlen_q):
                self.assertLessEqual(self.judge(mask, seqlen_q, seqlen_k), 1)

    @unittest.skipIf(torch is None or torch.__version__ < "2", "no f16 products on the CPU before 2.0")
    def test_f16(self):
        self.assertLessEqual(self.judge(dtype=torch.float16), 1)

    def test_faults_are_found(self):
        def nan(out, lse):
            out[99, 3] = math.nan

        def small(out, lse):
            out[98] *= 1.05

        def wrong_lse(out, lse):
            lse[17] += 1e-3

        def nan_lse(out, lse):
            lse[0] = math.nan
        for change, text in ((nan, "row 99"), (small, "row 98"), (wrong_lse, "row 17: lse"),
                             (nan_lse, "row 0: lse")):
            with self.subTest(change.__name__), self.assertRaisesRegex(WrongResult, text):
                self.judge(change=change)

    def test_a_row_without_keys_is_zero(self):
        def tiny(out, lse):
            out[3, 0] = 1e-30

        def finite(out, lse):
            lse[3] = -1e30
        for change in (tiny, finite):
            with self.subTest(change.__name__), self.assertRaisesRegex(WrongResult, "row 3"):
                self.judge("causal", 90, 50, change)

    def test_a_mask_off_by_one_is_found(self):
        torch.manual_seed(0)
        q, k, v = (torch.randn(64, 64).bfloat16() for _ in range(3))
        reference = HeadReference(q, k, v, "causal", 0.125)
        reference.judge(attention(q, k, v, "causal", 0.125)[0], None)
        for shift in (-1, 1):
            with self.assertRaises(WrongResult):
                reference.judge(attention(q, k, v, "causal", 0.125, shift)[0], None)

    def test_some_rows_of_a_head(self):
        torch.manual_seed(0)
        q, k, v = (torch.randn(n, 64).bfloat16() for n in (100, 120, 120))
        v = v[:, :24]
        rows = torch.tensor([0, 7, 99])
        reference = HeadReference(q, k, v, "causal", 0.125, rows=rows)
        whole = HeadReference(q, k, v, "causal", 0.125)
        self.assertEqual(tuple(reference.out.shape), (3, 24))
        self.assertTrue(torch.equal(reference.lse, whole.lse[rows]))
        out, lse = attention(q, k, v, "causal", 0.125)
        reference.judge(out, lse)
        out[7, 20] += 1
        with self.assertRaisesRegex(WrongResult, "row 7"):
            reference.judge(out, lse)

    def test_ulp(self):
        values = torch.tensor([1.0, 1.99, 2.0, 0.0], dtype=torch.float64)
        self.assertEqual(ulp(torch.bfloat16, values).tolist(), [2**-7, 2**-7, 2**-6, 2.0**-133])
        self.assertEqual(ulp(torch.float16, values).tolist(), [2**-10, 2**-10, 2**-9, 2**-24])


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Measure(unittest.TestCase):
    def interleave(self, stream, seconds=1.0, **device_seconds):
        contestants, order = [], []
        for label, cost in device_seconds.items():
            def launch(index, cost=cost, label=label):
                order.append(label)
                stream.launch(cost)
            contestants.append(measure.Contestant(label, launch, 2))
        with stream.patches(), stream.clock():
            rounds = measure.interleave(contestants, seconds, 60.0)
        return contestants, rounds, order

    def test_times_are_the_devices(self):
        for host_seconds in (1e-6, 300e-6):  # the second is longer than the kernel
            (a, b), rounds, _ = self.interleave(FakeStream(host_seconds), a=100e-6, b=200e-6)
            self.assertAlmostEqual(a.median, 0.1, places=6)
            self.assertAlmostEqual(b.median, 0.2, places=6)
            self.assertEqual(len(a.times), rounds * a.burst)

    def test_a_host_that_gets_slower_is_noticed(self):
        stream, calls = FakeStream(1e-6), []

        def launch(index):
            calls.append(index)
            stream.host += 0 if len(calls) < 4 else 2e-3  # beyond what was calibrated
            stream.launch(1e-4)
        contestant = measure.Contestant("a", launch, 2)
        with stream.patches(), stream.clock():
            measure.interleave([contestant], 1.0, 60.0)
        self.assertAlmostEqual(max(contestant.times), 0.1, places=6)

    def test_a_launch_that_waits_is_refused_by_name(self):
        stream = FakeStream()

        def launch(index):
            stream.launch(1e-4)
            stream.synchronize()
        with stream.patches(), stream.clock(), self.assertRaisesRegex(
                measure.MeasurementFailed, "waiting one: the host takes too long"):
            measure.interleave([measure.Contestant("waiting one", launch, 2)], 1.0, 60.0)

    def test_every_contestant_comes_first(self):
        self.assertEqual({measure.order_of(3, i)[0] for i in range(6)}, {0, 1, 2})
        self.assertEqual(sorted(measure.order_of(5, 7)), [0, 1, 2, 3, 4])

    def test_rounds_follow_the_time(self):
        few = self.interleave(FakeStream(), 0.1, a=1e-3)[1]
        many = self.interleave(FakeStream(), 100, a=1e-3)[1]
        self.assertEqual((few, many), (measure.LEAST_ROUNDS, measure.MOST_ROUNDS))

    def test_budget(self):
        now = [0.0]
        budget = measure.Budget(100, [1, 1, 2], lambda: now[0])
        self.assertEqual(budget.next(), 25)
        now[0] = 40  # the first took longer
        self.assertEqual(budget.next(), 20)
        now[0] = 200
        self.assertEqual(budget.next(), 0)

    def test_sets_exceed_the_cache(self):
        self.assertEqual(measure.set_count(200 << 20, 60 << 20), 2)
        self.assertEqual(measure.set_count(10 << 20, 60 << 20), 13)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Run(unittest.TestCase):
    CASE = Case(64, "causal", 64, 2, 2, "bf16", layout="bshd") if torch else None

    def kernel(self, stream, name="good.ptx", fault=None):
        return cpu_kernel(stream, self.CASE.key, name, fault)

    def measure(self, kernels, stream, peers=()):
        results, said = Results(), []
        failures = run.Failures(said.append)
        options = run_options()
        group = [("ours", "kernel", k, self.CASE) for k in kernels]
        group += [(p.label, "peer", p, self.CASE) for p in peers]
        with on_cpu(stream):
            facts = run.load_and_check(kernels, None, None, failures, 0)
            run.run_groups([Group(group)], options, facts, results, failures, said.append)
        return results, failures

    def peer(self, stream, function, label="peer"):
        def call(q, k, v):
            stream.launch(2e-4)
            return function(q, k, v)
        return SimpleNamespace(label=label, make=lambda head_dim, causal, dtype: call)

    def right(self, q, k, v):
        return torch.stack([torch.stack([attention(q[b, h], k[b, h], v[b, h], "causal", 0.125)[0]
                                         for h in range(q.shape[1])]) for b in range(q.shape[0])])

    def test_right_results_are_measured(self):
        stream = FakeStream()
        results, failures = self.measure([self.kernel(stream)], stream,
                                         [self.peer(stream, self.right)])
        self.assertEqual(failures.texts, [])
        ours, peer = results.records
        self.assertAlmostEqual(ours.median_ms, 0.1, places=6)
        self.assertAlmostEqual(peer.median_ms, 0.2, places=6)
        self.assertEqual((ours.registers, ours.file), (200, "good.ptx"))
        self.assertTrue(0 < ours.accuracy <= 1)

    def test_wrong_results_are_never_measured(self):
        def not_written(out, n):
            out[-1, -1, -1, 5] = math.nan

        def later(out, n):
            if n > 20:
                out[0, 0, 0, 0] += 1

        def row(out, n):
            out[0, 0, 40] = -out[0, 0, 40]

        def only_large(out, n):
            if out.shape[2] == 64:
                out[1, 1] *= 1.1
        for fault, text in ((not_written, "row 112|not written"), (later, "gave other bits"),
                            (row, "row 40: error"), (only_large, "batch entry 1, head 1")):
            with self.subTest(fault.__name__):
                stream = FakeStream()
                results, failures = self.measure([self.kernel(stream, "bad.ptx", fault)], stream)
                self.assertRegex("\n".join(failures.texts), rf"ours: bad\.ptx: .*({text})")
                self.assertFalse(results.records[0].measured)
                self.assertIn("failed", results.records[0].note)

    def test_a_peer_that_computes_something_else_has_no_figures(self):
        stream = FakeStream()
        wrong = self.peer(stream, lambda q, k, v: v, "wrong")
        absent = SimpleNamespace(label="absent", make=lambda *_: None)
        results, failures = self.measure([self.kernel(stream)], stream, [wrong, absent])
        notes = {r.label: r.note for r in results.records}
        self.assertRegex(notes["wrong"], "computes something else")
        self.assertRegex(notes["absent"], "does not do this case")
        self.assertEqual([r.label for r in results.records if r.measured], ["ours"])
        self.assertEqual(failures.texts, [])

    def test_a_launch_that_waits_costs_its_group_alone(self):
        stream = FakeStream()

        def waits(q, k, v):
            stream.synchronize()
            return self.right(q, k, v)
        kernel, results, said = self.kernel(stream), Results(), []
        failures, options = run.Failures(said.append), run_options()
        with on_cpu(stream):
            facts = run.load_and_check([kernel], None, None, failures, 0)
            ours = ("ours", "kernel", kernel, self.CASE)
            waiting = ("waiting", "peer", self.peer(stream, waits), self.CASE)
            run.run_groups([Group([ours, waiting]), Group([ours])], options, facts, results, failures, said.append)
        self.assertEqual([r.measured for r in results.records], [False, False, True])
        self.assertIn("the host takes too long", results.records[0].note)
        self.assertEqual(len(failures.texts), 1)


if __name__ == "__main__":
    unittest.main()
