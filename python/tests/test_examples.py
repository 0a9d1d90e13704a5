"""The examples in Python, as a user runs them."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import test_torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEVICE = test_torch.DEVICE
try:
    import transformers
except ImportError:
    transformers = None


@unittest.skipUnless(EXAMPLES.exists(), "an installed package has no examples")
class Examples(test_torch.Case):
    def run_example(self, name, *options):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, str(EXAMPLES / name), "--device", DEVICE, *options], timeout=300,
                                  capture_output=True, text=True, env={**os.environ, "FA2_CACHE_DIR": folder})
        self.assertEqual(done.returncode, 0, done.stdout[-1000:] + done.stderr[-1000:])
        return done.stdout

    def test_flex_attention(self):
        small = ("--seqlen", "40", "--heads", "2", "--head-dim", "32") if DEVICE == "cpu" else ()
        self.assertRegex(self.run_example("flex_attention.py", *small), "learned bias .* dcaptured 0.00.*\n(.*\n)*right")

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_transformers(self):
        self.assertIn("logits beside PyTorch's attention", self.run_example("transformers_generate.py", "--tokens", "4"))

    def test_train_gpt(self):
        small = ("--steps", "3", "--layers", "1", "--width", "32", "--heads", "2", "--seqlen", "24", "--batch", "1") if DEVICE == "cpu" else ("--steps", "3")
        self.assertRegex(self.run_example("train_gpt.py", *small), r"step +2 +fa2c .* SDPA")


if __name__ == "__main__":
    unittest.main()
