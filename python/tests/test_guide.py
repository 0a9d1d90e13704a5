"""The code of docs/guide/python.md and README.md, block by block, in the names that blocks before it made.

Where PyTorch is not installed, the blocks that need none run with NumPy's arrays; the others are PyTorch's and skipped."""

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
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guide" / "python.md"
try:
    import numpy as np

    import fa2c
except ImportError:
    np = None
try:
    import transformers
except ImportError:
    transformers = None


# What a block has that PyTorch is needed for.
PYTORCH = ("torch", "score_mod", "backward()", "flash_attn", "integrations")


def blocks(page=PAGE):
    """(line, code) of each ```python block."""
    text = page.read_text(encoding="utf-8")
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
        names, taken = {**self.names(), "fa2c": fa2c}, 0
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(folder.name)
        for line, code in blocks(ROOT / "README.md") + blocks():
            if "transformers" in code and transformers is None:
                continue
            if DEVICE == "cpu":  # the simulated H100 runs what is for sm_90a
                code = code.replace('"cuda"', '"sim:sm_90"')
            with self.subTest(line=line), mock.patch.object(torch.nn.functional, "scaled_dot_product_attention"):
                exec(compile("\n" * (line - 1) + code, str(PAGE), "exec"), names)
            taken += 1
            if "sdpa" in names:
                names.pop("sdpa").restore()
        self.assertGreaterEqual(taken, 8)
        for name in ("table", "temperature", "q"):
            self.assertGreater(names[name].grad.abs().max().item(), 0, name)


@unittest.skipUnless(PAGE.exists(), "an installed package has no pages")
@unittest.skipIf(np is None, "NumPy is not installed")
@unittest.skipUnless(test_torch.device_is_there, "this build of the runtime has no simulator")
class GuideWithoutPyTorch(unittest.TestCase):
    def tensors(self):
        """By their addresses, since NumPy has no bf16; as many rows as heads fit both orders of dimensions."""
        def tensor(name, dtype, *shape):
            self.arrays.append(np.full(shape, 0x3F80 if dtype == "bf16" else 0, {"bf16": np.uint16, "f32": np.float32}[dtype]))
            a = self.arrays[-1]
            return fa2c.tensor(name, a.ctypes.data, dtype, a.shape, [s // a.itemsize for s in a.strides])

        self.arrays = []
        q, k, v, out = (tensor(name, "bf16", 1, 16, 16, 128) for name in ("q", "k", "v", "out"))
        self.arrays[3][:] = 0
        return {"q": q, "k": k, "v": v, "out": out, "lse": tensor("lse", "f32", 1, 16, 16)}

    def test_blocks(self):
        half = np.random.default_rng(0).standard_normal((1, 2, 16, 64)).astype(np.float16)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        taken = 0
        for page, names in ((ROOT / "README.md", {"q": half, "k": half, "v": half}), (PAGE, self.tensors())):
            names["fa2c"] = fa2c
            for line, code in blocks(page):
                if any(word in code for word in PYTORCH):
                    continue
                with self.subTest(page=page.name, line=line):
                    exec(compile("\n" * (line - 1) + code.replace('"cuda"', '"sim:sm_90"'), str(page), "exec"), names)
                taken += 1
        self.assertEqual(taken, 4)
        self.assertTrue((self.arrays[3] == 0x3F80).all(), "values are all 1.0, and out is not")


if __name__ == "__main__":
    unittest.main()
