import contextlib
import io
import pathlib
import shutil
import tempfile
import unittest
from unittest import mock

import latencies
from fa2bench.probes import all_probes


class Texts(unittest.TestCase):
    def check(self, folder):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            status = latencies.main(["--check-ptx", folder])
        return status, out.getvalue()

    def test_a_chain_has_as_many_products_as_its_name_says(self):
        for name, probe in all_probes().items():
            if name.startswith("wgmma") and not name.endswith("load"):
                self.assertEqual(probe.timed.count("wgmma.mma_async"), int(name.rsplit("-")[-1]), name)

    def test_every_wait_can_end_the_kernel(self):
        for name, probe in all_probes().items():
            waits = probe.ptx().count("mbarrier.try_wait")
            self.assertEqual(probe.ptx().count(";\n  ret;\n") - 1 if waits else 0, waits, name)

    def test_writes_all_without_ptxas(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(shutil, "which", lambda _: None):
            status, out = self.check(folder)
            self.assertEqual((status, {path.stem for path in pathlib.Path(folder).glob("*.ptx")}), (0, set(all_probes())))
        self.assertIn("ptxas is not on PATH", out)

    @unittest.skipUnless(shutil.which("ptxas"), "ptxas is not installed")
    def test_assembles_without_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            status, out = self.check(folder)
            self.assertEqual(status, 0, out)
            self.assertIn("assembled by ptxas without a warning or a spill", out)
            path = pathlib.Path(folder, "bad.ptx")
            path.write_text(all_probes()["fma"].ptx().replace("fma.rn.f32", "fma.rn.f33"))
            self.assertIn("error", latencies.assemble(path)[0])


class Rates(unittest.TestCase):
    def test_reads_the_row_of_an_h200(self):
        standing = dict(latencies.stands())
        self.assertEqual((standing["multiprocessors"], standing["tensorFlops"]), (132, 4096))
        self.assertLessEqual({"clockGHz", "exponentials", "lanes", "sharedBytes", "globalBytes", "copyLatency", "launchClocks",
                              "matmulLatency"},
                             set(standing))

    def test_refuses_what_it_cannot_read(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(latencies, "RATES", pathlib.Path(folder)):
            err = io.StringIO()
            with contextlib.redirect_stderr(err):
                self.assertEqual(latencies.main([]), 2)
        self.assertIn("Rates.h: No such file or directory", err.getvalue())

    def test_digits(self):
        self.assertEqual([latencies.digits(x) for x in (1.97531, 43.21, 701.26, 4095.6, 12345.6)],
                         ["1.975", "43.21", "701.3", "4096", "12346"])


if __name__ == "__main__":
    unittest.main()
