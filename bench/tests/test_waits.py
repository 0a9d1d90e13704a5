"""What a profile by ncu says, in the form of its CSV."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import waits

HEAD = ('"Kernel Name","k",\n"Address","Source","# Samples","Instructions Executed","stall_barrier","stall_long_sb",'
        '"stall_barrier (Not Issued)"\n')
ROWS = [("MOV R1, R2", 10, 64, 0, 0), ("HGMMA.64x64x16", 100, 4096, 90, 5), ("@!P1  BRA 0x10", "1,800", "4,090", 0, 1700), ("EXIT", 90, 64, 0, 0)]


class Waits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "profile.csv"
        self.path.write_text(HEAD + "".join(f'"0x{i}","  {t}","{s}","{e}","{b}","{l}","0"\n' for i, (t, s, e, b, l) in enumerate(ROWS)))

    def told(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = waits.main([str(self.path), *arguments])
        return status, out.getvalue(), err.getvalue()

    def test_loops(self):
        self.assertEqual(waits.runs(waits.read(self.path)), [[0, 0], [1, 2], [3, 3]])
        status, out, _ = self.told("--least", "5")
        self.assertEqual((status, out.splitlines()), (0, [
            "2000 samples, 4 instructions, 8314 executed by warps",
            "    1-2        2 instructions, each      4096 times:  95.0 % of the samples"]))

    def test_what_they_wait_for(self):
        status, out, _ = self.told("--lines", "1-2", "--least", "10")
        self.assertEqual((status, len(out.splitlines())), (0, 1))
        self.assertRegex(out, r"^    2  94\.7 % @!P1  BRA 0x10 +long_sb:1700$")

    def test_refusals(self):
        self.assertEqual(self.told("--lines", "2-9")[::2], (2, "waits.py: error: --lines 2-9: must be FIRST-LAST, at most 0-3\n"))
        self.path.write_text("a,b\n1,2\n")
        status, out, err = self.told()
        self.assertEqual((status, out), (2, ""))
        self.assertIn("profile.csv: no source page by ncu: no line with the columns 'Source' and '# Samples'", err)
        self.path.unlink()
        self.assertIn("No such file or directory", self.told()[2])


if __name__ == "__main__":
    unittest.main()
