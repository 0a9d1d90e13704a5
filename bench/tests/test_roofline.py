import pathlib
import shutil
import subprocess
import tempfile
import unittest

import roofline


class Text(unittest.TestCase):
    def test_multiplies_what_it_counts(self):
        # A 64 x n x 16 product is 2 * 64 * n * 16 operations; an iteration counts 4 * rows * keys * dim.
        lines = roofline.ptx("f16").splitlines()
        products = [line for line in lines if "wgmma.mma_async" in line]
        columns = [int(line.split("m64n")[1].split("k16")[0]) for line in products]
        self.assertEqual(sum(2 * 64 * n * 16 for n in columns), 4 * roofline.ROWS * roofline.KEYS * roofline.DIM)
        self.assertTrue(all(".f32.f16.f16 " in line for line in products))

    @unittest.skipUnless(shutil.which("ptxas"), "ptxas is not installed")
    def test_assembles_without_spills(self):
        for dtype in ("bf16", "f16"):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "wgmma.ptx")
                path.write_text(roofline.ptx(dtype))
                done = subprocess.run(["ptxas", "-v", "-arch=sm_90a", path, "-o", path.with_suffix(".cubin")],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(" 0 bytes spill stores, 0 bytes spill loads", done.stderr)
                self.assertNotIn("C75", done.stderr)


if __name__ == "__main__":
    unittest.main()
