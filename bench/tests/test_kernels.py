import os
import tempfile
import unittest
from pathlib import Path

from fa2bench.cases import Case, Refused
from fa2bench.kernels import declarations, find_kernels
from fa2bench.runtime import Library, RuntimeFailure, find_library, manifest_of

from tests.fake import manifest, write_ptx


def library_or_none():
    try:
        return Library(None)
    except Refused:
        return None


LIBRARY = library_or_none()


@unittest.skipIf(LIBRARY is None, f"no {os.path.basename(find_library(None))} (set FA2RT_LIBRARY)")
class Kernels(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "tiles"
        self.path.mkdir()

    def tearDown(self):
        self.folder.cleanup()

    def test_the_manifest_tells_what_a_kernel_is(self):
        write_ptx(self.path / "misleading-d128-causal.ptx", manifest(64, "none"))
        write_ptx(self.path / "b.ptx", manifest(128, "causal"))
        label, kernels = find_kernels(LIBRARY, str(self.path))
        self.assertEqual(label, "tiles")
        self.assertEqual(sorted(kernels), [(64, 64, "none", "bf16"), (128, 128, "causal", "bf16")])
        self.assertEqual(find_kernels(LIBRARY, f"mine={self.path}/*.ptx")[0], "mine")

    def test_two_for_one_case_are_refused(self):
        write_ptx(self.path / "a.ptx", manifest())
        write_ptx(self.path / "b.ptx", manifest())
        with self.assertRaisesRegex(Refused, r"b\.ptx: .*a\.ptx in the same set"):
            find_kernels(LIBRARY, str(self.path))

    def test_other_passes_are_left_out(self):
        specification = manifest()["specification"]
        write_ptx(self.path / "a.ptx", manifest(specification={**specification, "pass": "backward"}))
        self.assertEqual(find_kernels(LIBRARY, str(self.path))[1], {})

    def test_a_kernel_is_for_its_own_head_dim_of_v(self):
        specification = manifest()["specification"]
        write_ptx(self.path / "a.ptx", manifest())
        write_ptx(self.path / "b.ptx", manifest(specification={**specification, "head_dim_v": 128}))
        kernels = find_kernels(LIBRARY, str(self.path))[1]
        self.assertEqual({key: k.path.name for key, k in kernels.items()},
                         {(64, 64, "none", "bf16"): "a.ptx", (64, 128, "none", "bf16"): "b.ptx"})
        self.assertIn(Case(64, "none", 512, 1, 4, "bf16", head_dim_v=128).key, kernels)

    def test_errors_name_the_file(self):
        with self.assertRaisesRegex(Refused, "tiles: no kernels there"):
            find_kernels(LIBRARY, str(self.path))
        broken = self.path / "broken.ptx"
        broken.write_text(".version 7.0\n")
        with self.assertRaisesRegex(Refused, r"broken\.ptx: it has no manifest"):
            find_kernels(LIBRARY, str(self.path))
        write_ptx(broken, manifest(fa2_manifest=99))
        with self.assertRaisesRegex(Refused, r"broken\.ptx: .*99"):
            find_kernels(LIBRARY, str(self.path))

    def test_a_cubin_takes_the_manifest_beside_it(self):
        write_ptx(self.path / "a.ptx", manifest())
        (self.path / "a.cubin").write_bytes(b"\x7fELF")
        kernel = find_kernels(LIBRARY, str(self.path / "a.cubin"))[1][64, 64, "none", "bf16"]
        self.assertEqual(kernel.image, b"\x7fELF")
        text = "\n".join(line[3:] for line in (self.path / "a.ptx").read_text().splitlines()[1:]
                         if line.startswith("// ") and "manifest-" not in line)
        (self.path / "a.ptx").unlink()
        (self.path / "a.json").write_text(text)
        kernel = find_kernels(LIBRARY, str(self.path / "a.cubin"))[1][64, 64, "none", "bf16"]
        self.assertEqual(manifest_of(kernel.ptx), manifest())
        with self.assertRaisesRegex(Refused, "broken"):
            declarations("{}")

    def test_loading_refuses_what_does_not_belong_together(self):
        write_ptx(self.path / "a.ptx", manifest())
        with self.assertRaises(RuntimeFailure):
            LIBRARY.check_manifest((self.path / "a.ptx").read_bytes().replace(b".u32 b", b".u64 b"))


if __name__ == "__main__":
    unittest.main()
