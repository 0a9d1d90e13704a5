"""The layout of Hugging Face's kernel hub, as the package `kernels` loads it."""

import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import fa2c

try:
    import kernels
    import torch
except ImportError:
    kernels = None
ROOT = Path(__file__).resolve().parents[2]
LOAD = """
import pathlib, sys
import kernels, torch
one, other = (kernels.get_local_kernel(pathlib.Path(folder)) for folder in sys.argv[1:])
assert one is not other and one.__name__ != other.__name__, (one, other)
q = torch.randn(1, 8, 2, 32, dtype=torch.bfloat16)
results = []
for kernel in (one, other):
    assert hasattr(kernel, "flash_attn_varlen_func") and not hasattr(kernel, "flash_attn_nonsense")
    results.append(kernel.flash_attn_func(q, q, q, causal=True))
    results.append(torch.compile(lambda x: kernel.attention(x, x, x, causal=True, layout="bshd"), backend="eager", fullgraph=True)(q))
assert all(torch.equal(x, results[0]) for x in results)
"""


@unittest.skipIf(kernels is None, "the package kernels is not installed")
@unittest.skipUnless((ROOT / "scripts" / "hub.py").exists(), "an installed package has no scripts")
class Hub(unittest.TestCase):
    def test_two_versions_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            for version in ("0.1.0", "0.2.0"):
                wheel = os.path.join(folder, f"fa2c-{version}.whl")
                with zipfile.ZipFile(wheel, "w") as archive:
                    archive.writestr(f"fa2c-{version}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: fa2c\nVersion: {version}\n")
                    for path in Path(fa2c.__file__).parent.rglob("*.py"):
                        name = "fa2c/" + path.relative_to(Path(fa2c.__file__).parent).as_posix()
                        archive.writestr(name, path.read_text() + f"\n# {version}\n")
                subprocess.run([sys.executable, ROOT / "scripts" / "hub.py", wheel, os.path.join(folder, version)], check=True,
                               stdout=subprocess.DEVNULL)
            environment = {**os.environ, "FA2_CACHE_DIR": os.path.join(folder, "cache")}
            environment.pop("PYTHONPATH", None)  # nothing but what is loaded is there
            done = subprocess.run([sys.executable, "-c", LOAD, os.path.join(folder, "0.1.0"), os.path.join(folder, "0.2.0")],
                                  env=environment, cwd=folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
