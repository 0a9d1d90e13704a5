"""Lists of cases, their tables, and what the command line makes of them."""

import math
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import shapes
from fa2bench.cases import Case, Refused
from fa2bench.group import Sample
from fa2bench.peers import mask_for
from fa2bench.results import Results, read_csv, record_for, write_csv
from fa2bench.session import check_coverage
from fa2bench.shape_lists import cases_of, find_list, keep_only, names
from fa2bench.shape_tables import ListResults
from fa2bench.tables import markdown, terminal


class Lists(unittest.TestCase):
    def test_the_lists_here(self):
        counts = {name: len(find_list(name)[1]) for name in names()}
        self.assertEqual(counts, {"few-queries": 36, "few-queries-causal": 36, "few-tiles": 72, "odd": 18,
                                  "values": 42})
        for case in find_list("few-tiles")[1]:
            self.assertLessEqual(case.batch * case.seqlen, 8192)
        self.assertEqual({c.heads_kv for c in find_list("few-queries")[1]}, {4, 8})

    def test_a_line_is_all_combinations(self):
        cases = cases_of("head_dim=128 heads=8 heads_kv=2 seqlen=1 seqlen_k=64,128 batch=1,2 layout=bshd mask=causal")
        self.assertEqual([(c.seqlen_k, c.batch) for c in cases], [(64, 1), (64, 2), (128, 1), (128, 2)])
        self.assertEqual(cases[0], Case(128, "causal", 1, 1, 8, "bf16", 2, 64, 128, "bshd", "normal"))
        self.assertEqual([c.batch * c.seqlen for c in cases_of("head_dim=64 heads=1 batch=1,2 seqlen=8,16 tokens=16")],
                         [8, 16, 16])
        self.assertEqual(cases_of("head_dim=64 heads=1 seqlen=8", "f16")[0].dtype, "f16")
        self.assertEqual(cases_of("   "), [])

    def test_errors_name_what_is_wrong(self):
        start = "head_dim=64 heads=6 seqlen=8 "
        for line, text in (("heads=6 seqlen=8", "head_dim is not given"),
                           (start + "heads_kv=4", "heads_kv is 4.*heads 6"),
                           (start + "head_dim_v=20", "head_dim_v is 20.*such as 24"), (start + "batch=0", "batch is 0"),
                           (start + "batch=two", "batch is 'two'.*whole number"),
                           (start + "mask=window", "mask is 'window'.*one of none, causal"),
                           (start + "values=wild", "values is 'wild'"), (start + "rows=3", "'rows' is no field"),
                           (start + "batch", "'batch' is not KEY=VALUE"), (start + "seqlen=9", "seqlen is given twice"),
                           (start + "tokens=9,10", "tokens is 9,10"), ("head_dim=264 heads=1 seqlen=1", "such as 256")):
            with self.subTest(line), self.assertRaisesRegex(Refused, text):
                cases_of(line)

    def test_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "mine.txt"
            path.write_text("# two\nhead_dim=64 heads=1 seqlen=8,8 # once\n\nhead_dim=64 heads=1 seqlen=9\n")
            self.assertEqual([c.seqlen for c in find_list(str(path))[1]], [8, 9])
            self.assertEqual(find_list(str(path))[0], "mine")
            path.write_text("head_dim=64 heads=1 seqlen=8\nhead_dim=64 heads=1 seqlen=x\n")
            with self.assertRaisesRegex(Refused, r"mine\.txt:2: seqlen is 'x'"):
                find_list(str(path))
            path.write_text("# nothing\n")
            with self.assertRaisesRegex(Refused, "holds no cases"):
                find_list(str(path))
            path.write_text(f"head_dim=64 heads=1 seqlen={','.join(map(str, range(1, 1002)))}")
            with self.assertRaisesRegex(Refused, "1001 cases; at most 1000"):
                find_list(str(path))
        with self.assertRaisesRegex(Refused, "nowhere: neither a file nor one of few-queries"):
            find_list("nowhere")

    def test_only(self):
        cases = keep_only(find_list("few-tiles")[1], "head_dim=64,128 mask=causal tokens=1024")
        self.assertEqual({(c.head_dim, c.mask) for c in cases}, {(64, "causal"), (128, "causal")})
        self.assertEqual({c.batch * c.seqlen for c in cases}, {512, 1024})


class Peers(unittest.TestCase):
    def mask_for(self, seqlen, seqlen_k, mask="causal", bottom_right=False):
        case = Case(64, mask, seqlen, 1, 4, "bf16", seqlen_k=seqlen_k)
        return mask_for(SimpleNamespace(bottom_right=bottom_right), case)

    def test_masks_that_a_peer_has(self):
        self.assertEqual(self.mask_for(512, 512), ("causal", ""))
        self.assertEqual(self.mask_for(1, 512), ("none", ""))
        self.assertEqual(self.mask_for(16, 512, "none"), ("none", ""))
        self.assertEqual(self.mask_for(16, 512, bottom_right=True), ("causal", ""))
        mask, note = self.mask_for(16, 512)
        self.assertEqual(mask, "none")
        self.assertIn("measured without a mask", note)
        mask, note = self.mask_for(500, 512)
        self.assertIsNone(mask)
        self.assertIn("bottom right", note)


class Samples(unittest.TestCase):
    def test_heads_and_rows(self):
        import random
        sample = Sample(heads=2, rows=256)
        case = Case(64, "none", 4096, 4, 8, "bf16")
        rows = sample.rows_of(case, random.Random(0))
        self.assertEqual((len(set(rows)), rows), (256, sorted(rows)))
        self.assertEqual((rows[:64], rows[-64:]), (list(range(64)), list(range(4032, 4096))))
        self.assertEqual(sample.heads_of(case), 2)
        few = replace(case, seqlen=1)
        self.assertIsNone(sample.rows_of(few, random.Random(0)))
        self.assertEqual((sample.heads_of(few), sample.heads_of(replace(few, batch=1))), (16, 8))
        self.assertEqual((Sample().heads_of(case), Sample().rows_of(case, None)), (3, None))


def fake_results():
    """base 100 us, new 80 us, or 160 us on x3; peers 90 and 120 us; new's bits differ once, one peer has a hole."""
    results = Results("shapes", "a machine", "a title")
    for line, name in (("head_dim=128 heads=8 mask=none,causal seqlen=1024 values=normal,x3", "values"),
                       ("head_dim=128 heads=8 heads_kv=1 seqlen=1 seqlen_k=1024,2048", "queries")):
        for case in cases_of(line):
            for label, role, us in (("base", "kernel", 100), ("new", "kernel", 160 if case.values == "x3" else 80),
                                    ("cuDNN", "peer", 90), ("other", "peer", 120)):
                record = results.add(record_for(label, role, case, list=name))
                if label == "other" and name == "queries":
                    record.note = "no kernel"
                    continue
                record.fill([us * 1.1e-3, us * 1e-3, us * 0.9e-3])
                if role == "kernel":
                    record.accuracy = 0.5 if case.mask == "none" else 0.6
                    odd = label == "new" and case.seqlen_k == 2048
                    record.bits = "set 0: out has 1 of 2 elements other" if odd else "same"
    return results


class Tables(unittest.TestCase):
    def test_ratios(self):
        found = ListResults(fake_results(), "values")
        wide = found.cases[1]
        ratios = {name: ratio(wide) for name, ratio in found.ratios().items()}
        wanted = {"base / best peer": 0.9, "new / best peer": 90 / 160, "new / base": 100 / 160,
                  "base / its normal": 1.0, "new / its normal": 0.5}
        self.assertEqual(list(ratios), list(wanted))
        for name, value in wanted.items():
            self.assertAlmostEqual(ratios[name], value, msg=name)
        self.assertTrue(math.isnan(found.ratios()["new / its normal"](found.cases[0])))

    def test_terminal(self):
        text = terminal(fake_results())
        self.assertIn("values, TFLOP/s; head dim 128, batch 1, heads 8, seqlen 1024, dtype bf16, layout bhsd\n", text)
        self.assertRegex(text, r"full +x3 +100\.0 +160\.0 +42\.9 +26\.8 +47\.7 +35\.8 +0\.900 +0\.562 +0\.625 +1\.000 "
                               r"+0\.500\n")
        self.assertRegex(text, "queries, GB/s; head dim 128, mask full, batch 1, heads 8/1, dtype bf16")
        self.assertRegex(text, r"\n1/1024 +100\.0 +80\.00 +5\.28 +6\.60 +5\.87 +- +0\.900 +1\.125 +1\.250\n")
        self.assertNotIn("nan", text)

    def test_summary_says_what_is_worst_and_where(self):
        text = terminal(fake_results())
        self.assertRegex(text, r"new / base +all +4 +0\.884 +0\.625 +mask (full|causal), values x3\n")
        self.assertRegex(text, r"new / base +normal +2 +1\.250 +1\.250 ")
        self.assertRegex(text, r"new / its normal +x3 +2 +0\.500 +0\.500 ")
        self.assertRegex(text, r"new / other +all +4 +")
        self.assertNotRegex(text, r"new / other +x3 +")

    def test_notes(self):
        text = terminal(fake_results())
        self.assertIn("queries, new: bits other in 1 of 2 cases\nnew, head dim 128, mask none, seqlen 1/2048", text)
        self.assertIn("values, base: bits equal in all of 4 cases", text)
        self.assertIn("queries, other, head dim 128, mask none, seqlen 1/1024, batch 1, heads 8/1, bf16 and 1 more: "
                      "no kernel\n", text)
        self.assertIn("values, base: right in 4 cases, the worst row at 0.60 of", text)

    def test_nothing_timed(self):
        results = fake_results()
        for record in results.records:
            record.clear("")
        text = terminal(results)
        self.assertNotIn("TFLOP/s", text)
        self.assertIn("bits equal in all", text)

    def test_render_makes_the_same_page(self):
        with tempfile.TemporaryDirectory() as folder:
            options = SimpleNamespace(out=Path(folder), render=None)
            with redirect_stdout(StringIO()) as printed:
                shapes.write_all(fake_results(), options)
            page = (Path(folder) / "shapes.md").read_text()
            self.assertEqual(page, markdown(read_csv(Path(folder) / "shapes.csv")))
            again = Path(folder) / "again"
            with redirect_stdout(StringIO()) as rendered:
                self.assertEqual(shapes.main(["--render", f"{folder}/shapes.csv", "--out", str(again)]), 0)
            self.assertEqual((again / "shapes.md").read_text(), page)
            self.assertEqual(printed.getvalue().splitlines()[:-1], rendered.getvalue().splitlines()[:-1])
            for line in page.splitlines():
                self.assertEqual(line.startswith("|"), line.endswith("|"), line)
            other = fake_results()
            other.mode = "grid"
            write_csv(other, Path(folder) / "grid.csv")
            with redirect_stderr(StringIO()) as said:
                self.assertEqual(shapes.main(["--render", f"{folder}/grid.csv", "--out", folder]), 2)
            self.assertIn("it is of mode grid", said.getvalue())


class CommandLine(unittest.TestCase):
    def test_groups_differ_in_values_alone(self):
        options = shapes.parse(["a", "--shapes", "values", "--only", "head_dim=128"])
        lists = shapes.read_lists(options)
        ours = {"a": {(128, 128, "none", "bf16"): "kernel"}}
        with redirect_stderr(StringIO()) as said:
            groups = shapes.make_groups(lists, ours, {"peer": "a peer"})
        self.assertEqual(said.getvalue(), "a: no kernel for head dim 128 causal bf16\n")
        self.assertEqual(len(groups), 1)  # nobody measures peers where there is no kernel
        self.assertEqual([(label, case.values) for label, _, _, case in groups[0].entries[:4]],
                         [("a", "normal"), ("peer", "normal"), ("a", "x3"), ("peer", "x3")])
        self.assertEqual((len(groups[0].entries), groups[0].list), (14, "values"))

    def test_coverage(self):
        with self.assertRaisesRegex(Refused, "a: it has no kernel for any of the cases .head dim 64/32 none bf16"):
            check_coverage("a", {}, {(64, 32, "none", "bf16")})

    def test_bad_input_exits_with_2(self):
        for bad in (["a"], ["--shapes", "odd", "--untimed"], ["a", "--shapes", "odd", "--render", "x.csv"],
                    ["--shapes", "odd", "--peers", "none"]):
            with self.subTest(bad), redirect_stderr(StringIO()), self.assertRaises(SystemExit) as caught:
                shapes.parse(bad)
            self.assertEqual(caught.exception.code, 2)
        with self.assertRaisesRegex(Refused, "no case has head_dim=8"):
            shapes.read_lists(shapes.parse(["a", "--shapes", "odd", "--only", "head_dim=8"]))
        with self.assertRaisesRegex(Refused, "another list is called 'odd'"):
            shapes.read_lists(shapes.parse(["a", "--shapes", "odd", "odd"]))


if __name__ == "__main__":
    unittest.main()
