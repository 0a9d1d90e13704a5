import itertools
import math
import tempfile
import unittest
from pathlib import Path

import forward
from fa2bench import dims, options
from fa2bench.cases import Case, Refused, make_case, paper_grid
from fa2bench.plot import write_plot
from fa2bench.results import Results, geometric_mean, read_csv, record_for, write_csv
from fa2bench.tables import markdown, summary_rows, terminal, variant_rows

from tests.fake import fake_results

try:
    import matplotlib  # noqa: F401
    HAS_MATPLOTLIB = True
except ImportError:
    HAS_MATPLOTLIB = False


class Cases(unittest.TestCase):
    def test_flops_are_the_papers(self):
        case = Case(128, "none", 4096, 4, 16, "bf16")
        self.assertEqual(case.flops, 4 * 4096 * 4096 * 128 * 16 * 4)
        self.assertEqual(Case(128, "causal", 4096, 4, 16, "bf16").flops, case.flops / 2)
        self.assertEqual(case.backward_flops, 2.5 * case.flops)
        self.assertEqual(Case(192, "none", 2, 1, 3, "bf16", head_dim_v=128).backward_flops,
                         2 * 4 * (3 * 192 + 2 * 128) * 3)

    def test_visible_pairs_are_counted(self):
        for mask, n, m in itertools.product(("none", "causal", "causal_top_left"), (1, 3, 16, 40), (1, 5, 16, 33)):
            shift = m - n if mask == "causal" else 0
            seen = [m if mask == "none" else min(max(i + 1 + shift, 0), m) for i in range(n)]
            case = Case(64, mask, n, 2, 4, "bf16", heads_kv=2, seqlen_k=m, head_dim_v=32)
            wanted = n * m / 2 if n == m and mask != "none" else sum(seen)
            self.assertEqual((case.pairs, case.flops), (wanted, 2 * wanted * 96 * 4 * 2), str(case))

    def test_bytes_are_each_tensors_once(self):
        case = Case(64, "none", 1, 2, 4, "bf16", heads_kv=2, seqlen_k=100, head_dim_v=32)
        self.assertEqual(case.bytes, 2 * 2 * (4 * 64 + 2 * 100 * 64 + 2 * 100 * 32 + 4 * 32))
        self.assertTrue(case.bound_by_bytes)
        self.assertFalse(Case(64, "none", 512, 1, 4, "bf16").bound_by_bytes)

    def test_what_is_not_said_is_as_in_q(self):
        case = Case(64, "none", 512, 1, 4, "bf16")
        self.assertEqual((case.heads_kv, case.seqlen_k, case.head_dim_v), (4, 512, 64))
        self.assertEqual(str(case), "head dim 64, mask none, seqlen 512, batch 1, heads 4, bf16")
        self.assertIn("head dim 64/32, mask none, seqlen 512/9", str(Case(
            64, "none", 512, 1, 4, "bf16", seqlen_k=9, head_dim_v=32)))

    def test_grid(self):
        cases = paper_grid([64, 256], ["none", "causal"], [512, 16384], 2048, 16384, "bf16")
        self.assertEqual(len(cases), 8)
        self.assertEqual((cases[0].heads, cases[0].batch), (32, 32))
        self.assertEqual((cases[-1].heads, cases[-1].batch), (8, 1))

    def test_seqlen_must_divide(self):
        with self.assertRaisesRegex(Refused, "seqlen is 1000.*such as 1024"):
            make_case(64, "none", 1000, 16, 16384, "bf16")
        with self.assertRaisesRegex(Refused, "head dim is 96"):
            paper_grid([96], ["none"], [512], 2048, 16384, "bf16")


class Ratios(unittest.TestCase):
    def test_ratio_and_best_peer(self):
        results = fake_results()
        self.assertAlmostEqual(results.ratio("ours", "FlashAttention-2", 128, "none", 2048), 1.1)
        self.assertAlmostEqual(results.ratio("ours", None, 128, "none", 2048), 330 / 440)
        # cuDNN has no figures there: the best is FlashAttention-2.
        self.assertAlmostEqual(results.ratio("ours", None, 64, "causal", 2048), 1.1)

    def test_median_not_mean(self):
        record = record_for("a", "kernel", Case(64, "none", 1024, 16, 32, "bf16"))
        record.fill([1.0, 9.0, 2.0])
        self.assertEqual((record.median_ms, record.best_ms, record.launches), (2.0, 1.0, 3))
        self.assertAlmostEqual(record.tflops, record.case.flops / 2.0 / 1e9)

    def test_geometric_mean_leaves_holes_out(self):
        self.assertAlmostEqual(geometric_mean([1, 4, math.nan]), 2)
        self.assertTrue(math.isnan(geometric_mean([])))

    def test_summary_finds_the_worst_point(self):
        rows = summary_rows(fake_results())
        row = next(r for r in rows if r[0] == "ours / FlashAttention-2" and r[1] == "all")
        self.assertEqual(row[3:5], ["0.90", "64 full 1024"])
        self.assertEqual(row[6], "1.10")  # 2048 and longer


class Tables(unittest.TestCase):
    def test_terminal(self):
        text = terminal(fake_results(), [64, 128, 256])
        self.assertRegex(text, r"head dim 64, full +1024 +2048 +geomean")
        self.assertRegex(text, r"\nours +270 +330 ")
        self.assertRegex(text, r"\nours / best peer +0\.61 +0\.75")
        self.assertIn("cuDNN, head dim 64, causal: no kernel", text)
        self.assertNotIn("nan", text)

    def test_spills_are_told(self):
        results = fake_results()
        results.records[0].local_bytes, results.records[0].file = 48, "a.ptx"
        self.assertIn("ours: a.ptx uses 48 bytes of local memory", terminal(results, [64]))

    def test_markdown_has_whole_tables(self):
        table = [line for line in markdown(fake_results(), [64]).splitlines() if line.startswith("|")]
        self.assertGreater(len(table), 20)
        for line in table:
            self.assertTrue(line.endswith("|"), line)

    def test_variants_side_by_side(self):
        results = fake_results()
        for record in [r for r in results.records if r.label == "ours"]:
            other = results.add(record_for("theirs", "kernel", record.case))
            other.fill([record.median_ms * 2])
        rows = variant_rows(results)
        self.assertEqual(rows[0][1:], ["64 full", "64 causal", "128 full", "128 causal"])
        self.assertEqual(rows[1][3], "330*")
        self.assertEqual(rows[2][3], "165 ")

    def test_csv_round_trip(self):
        with tempfile.TemporaryDirectory() as folder:
            path, again = Path(folder) / "forward.csv", Path(folder) / "again.csv"
            write_csv(fake_results(), path)
            results = read_csv(path)
            self.assertEqual((results.machine, results.title), ("a machine", "a title"))
            self.assertEqual(terminal(results, [64]), terminal(fake_results(), [64]))
            write_csv(results, again)
            self.assertEqual(path.read_text(), again.read_text())
            path.write_text("label,role,head_dim,mask,seqlen,batch,heads,dtype,median_ms,tflops\n"
                            "ours,kernel,64,none,1024,16,32,bf16,0.5,300\n")  # as files were before 2026-11-22
            record, = read_csv(path).records
            self.assertEqual(record.case, Case(64, "none", 1024, 16, 32, "bf16", 32, 1024, 64))
            self.assertEqual((record.measured, record.tflops, record.layout), (True, 300, "bhsd"))
            path.write_text("a,b\n1,2\n")
            with self.assertRaisesRegex(Refused, "not a CSV of this benchmark"):
                read_csv(path)

    @unittest.skipUnless(HAS_MATPLOTLIB, "matplotlib is not installed")
    def test_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "forward.png"
            self.assertTrue(write_plot(fake_results(), path))
            self.assertEqual(path.read_bytes()[1:4], b"PNG")


class Dims(unittest.TestCase):
    TUNED = {64: 10.0, 128: 18.0, 256: 50.0}

    def test_interpolation(self):
        for head_dim, want in ((64, 10), (80, 12), (72, 12), (128, 18), (192, 34), (40, 10), (8, 10),
                               (249, 50)):
            self.assertAlmostEqual(dims.interpolate(head_dim, self.TUNED), want, msg=str(head_dim))
        self.assertTrue(math.isnan(dims.interpolate(72, {64: 10.0})))
        self.assertTrue(math.isnan(dims.interpolate(72, {})))

    def rows(self, times):
        results = Results("dims")
        for head_dim, ms in {**self.TUNED, **times}.items():
            record = results.add(record_for("ours", "kernel", make_case(
                head_dim, "none", 2048, 16, 16384, "bf16")))
            record.fill([ms])
        return results, {r.head_dim: r for r in dims.dim_rows(results, "ours", "none", 2048,
                                                              [64, 128, 256])}

    def test_verdicts(self):
        results, rows = self.rows({32: 10.5, 40: 9.5, 72: 14.0, 96: 17.0})
        self.assertEqual({d: r.verdict for d, r in rows.items()},
                         {32: "slow", 40: "ok", 72: "ok", 96: "slow"})
        text = terminal(results, [64, 128, 256])
        self.assertRegex(text, r"head dim 72 +14000\.0 +12000\.0 +1\.167 +1\.176 +ok")

    def test_a_missing_tuned_dim_gives_no_verdict(self):
        results, _ = self.rows({72: 14.0})
        results.records = [r for r in results.records if r.head_dim != 64]
        row, = [r for r in dims.dim_rows(results, "ours", "none", 2048, [64, 128, 256])
                if r.head_dim == 72]
        self.assertEqual(row.verdict, "-")


class Groups(unittest.TestCase):
    def groups(self, *more):
        o = options.parse(["a", "--head-dims", "64", "--masks", "none", "--seqlens", "512,1024", *more])
        ours = {"a": {(d, d, "none", "bf16"): f"kernel {d}" for d in (32, 64)}}
        return forward.make_groups(o, ours, {"cuDNN": "a peer"})

    def test_each_point_is_a_group(self):
        groups = self.groups("--layout", "bshd", "--values", "x3")
        self.assertEqual([[(label, role) for label, role, _, _ in group.entries] for group in groups],
                         [[("a", "kernel"), ("cuDNN", "peer")]] * 2)
        self.assertEqual(groups[1].entries[0][2:], ("kernel 64", Case(64, "none", 1024, 16, 32, "bf16", layout="bshd",
                                                                      values="x3")))

    def test_all_head_dims_of_a_length_are_a_group(self):
        groups = self.groups("--dims", "32")
        self.assertEqual([[case.head_dim for *_, case in group.entries] for group in groups], [[32, 32, 64, 64]] * 2)


class Options(unittest.TestCase):
    def test_defaults(self):
        o = options.parse(["a", "--variants", "b", "c"])
        self.assertEqual(o.variants, ["a", "b", "c"])
        self.assertEqual(o.seqlens, [512, 1024, 2048, 4096, 8192, 16384])
        self.assertEqual(o.pytorch_peers, ["flash2", "cudnn"])
        self.assertEqual(options.parse(["a", "--dims", "32"]).seqlens, [2048, 8192])
        self.assertEqual(options.parse(["a", "--peers", "none"]).pytorch_peers, [])

    def test_bad_options_exit_with_2(self):
        for bad in (["a", "--head-dims", "12"], ["a", "--head-dims", "264"], ["a", "--head-dims", "0"],
                    ["a", "--masks", "window"], ["--peers", "none"], ["a", "--peer", "x"],
                    ["a", "--render", "x.csv"], ["--dims", "32"], ["a", "--seqlens", "512,512"],
                    ["a", "--peers", "none,flash2"], ["a", "--seconds", "nan"], ["a", "--pause", "-1"]):
            with self.subTest(bad), self.assertRaises(SystemExit) as caught:
                with open("/dev/null", "w") as sink, redirect(sink):
                    options.parse(bad)
            self.assertEqual(caught.exception.code, 2)


def redirect(sink):
    from contextlib import redirect_stderr
    return redirect_stderr(sink)


if __name__ == "__main__":
    unittest.main()
