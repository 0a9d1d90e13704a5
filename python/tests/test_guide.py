"""The code of docs/guide/python.md, block by block, in the names that blocks before it made."""

import os
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import test_torch

torch = test_torch.torch
DEVICE = test_torch.DEVICE
setUpModule = test_torch.setUpModule
PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "python.md"
try:
    import transformers
except ImportError:
    transformers = None


def blocks():
    """(line, code) of each ```python block."""
    text = PAGE.read_text(encoding="utf-8")
    return [(text[: found.start()].count("\n") + 2, found.group(1)) for found in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S)]


@unittest.skipUnless(PAGE.exists(), "an installed package has no pages")
class Guide(test_torch.Case):
    def names(self):
        """What the page takes as given: tensors that fit both orders of dimensions, and what its programs capture."""
        n = 16
        q, k, v = self.three(1, n, n, n, n, 128, 128)
        return {
            "q": q, "k": k, "v": v, "n": n, "lse": torch.empty(1, n, n, device=DEVICE),
            "table": torch.randn(n, 2 * n - 1, device=DEVICE, requires_grad=True),
            "temperature": torch.tensor(0.5, device=DEVICE, requires_grad=True),
            "documents": torch.sort(torch.randint(3, (1, n), device=DEVICE))[0],
        }

    def test_blocks(self):
        names, taken = self.names(), 0
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)
        for line, code in blocks():
            if "transformers" in code and transformers is None:
                continue
            if DEVICE == "cpu":  # the simulated H100 runs what is for sm_90a
                code = code.replace('"cuda"', '"sim:sm_90"')
            with self.subTest(line=line), mock.patch.object(torch.nn.functional, "scaled_dot_product_attention"):
                exec(compile("\n" * (line - 1) + code, str(PAGE), "exec"), names)
            taken += 1
            if "sdpa" in names:
                names.pop("sdpa").restore()
        self.assertGreaterEqual(taken, 6)
        for name in ("table", "temperature", "q"):
            self.assertGreater(names[name].grad.abs().max().item(), 0, name)


if __name__ == "__main__":
    unittest.main()
