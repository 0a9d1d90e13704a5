"""Kernels as files, and what doctor says."""

import contextlib
import io
import os
import tempfile
import unittest
from unittest import mock

import test_arrays

import fa2c
from fa2c import library
from fa2c.doctor import main

np = test_arrays.np


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "attention.ptx")

    @unittest.skipIf(np is None, "NumPy is not installed")
    @unittest.skipUnless(test_arrays.simulator_is_there, "this build of the runtime has no simulator")
    def test_a_file_computes_what_attention_does(self):
        def capped(score, b, h, q, kv):
            return score * 0.5

        explanation = fa2c.export(self.path, dtype=np.dtype("float16"), head_dim=64, score_mod=capped, causal=True)
        self.assertIn("block_q", explanation)
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["attention.ptx"])
        program = fa2c.load(self.path, "sim", heads_first=True)
        self.assertEqual(program.manifest["specification"]["mask"], "causal")
        q = np.random.default_rng(0).standard_normal((1, 2, 24, 64)).astype("float16")
        out, lse = np.full_like(q, np.nan), np.full((1, 2, 24), np.nan, np.float32)
        program(q=q, k=q, v=q, out=out, lse=lse)
        np.testing.assert_array_equal(out, fa2c.attention(q, q, q, causal=True, score_mod=capped))

    def test_what_is_wrong(self):
        for error, text, options in (
            (TypeError, "dtype is 'fp8'; expected 'bf16' or 'f16'", dict(dtype="fp8", head_dim=64)),
            (fa2c.CompileError, "expected head_dim to be a multiple of 8", dict(dtype="bf16", head_dim=100)),
            (fa2c.CompileError, "unknown arch 'sm_70'", dict(dtype="bf16", head_dim=64, arch="sm_70")),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                fa2c.export(self.path, **options)
        self.assertFalse(os.path.exists(self.path))
        with open(self.path, "w") as file:
            file.write("no PTX")
        with self.assertRaises(FileNotFoundError):
            fa2c.load(self.path + "x", "sim")


class Errors(unittest.TestCase):
    def test_out_of_memory_is_pythons_too(self):
        with mock.patch.object(library, "last_error", lambda: "cuMemAlloc: out of memory"):
            with self.assertRaisesRegex(MemoryError, "cuMemAlloc: out of memory") as caught:
                library.check(library.OUT_OF_MEMORY)
            self.assertIsInstance(caught.exception, fa2c.Error)
            with self.assertRaises(fa2c.Error) as caught:
                library.check(4)
            self.assertNotIsInstance(caught.exception, MemoryError)


class Doctor(unittest.TestCase):
    def run_it(self, *arguments):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = main(list(arguments))
        return status, text.getvalue()

    @unittest.skipUnless(test_arrays.simulator_is_there, "this build of the runtime has no simulator")
    def test_says_what_is_here(self):
        status, text = self.run_it("doctor")
        self.assertEqual(status, 0)
        self.assertRegex(text, r"compiler   \d.*head dim 64 to \d+ KB of PTX in")
        self.assertRegex(text, r"simulator  simulated sm_80; forward kernels for sm_80")
        self.assertRegex(text, r"fa2c.attention takes .*small arrays of the host\n")

    def test_says_what_is_missing(self):
        with mock.patch("fa2c.compiler.compiler_library", side_effect=ImportError("libfa2.so.0 could not be loaded")):
            status, text = self.run_it("doctor")
        self.assertEqual(status, 1)
        self.assertIn("compiler   no: libfa2.so.0 could not be loaded", text)
        self.assertIn("fa2c.attention does not work here", text)
        self.assertEqual(self.run_it("nurse")[0], 2)


if __name__ == "__main__":
    unittest.main()
