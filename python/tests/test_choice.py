"""Which kernel a launch takes: the one that would run if the whole specification were loaded."""

import ctypes
import itertools
import os
import tempfile
import unittest
from unittest import mock

import fa2c
from fa2c import kernels as kernels_module
from fa2c.choice import Choice, Lengths, lengths_of
from fa2c.kernels import Kernels, schedules_of
from fa2c.specification import Specification

CAUSAL = Specification("bf16", 64, 64, "causal")
FULL = Specification("bf16", 128, 128)
MEMORY = ctypes.create_string_buffer(64)


def tensors(spec, n: Lengths):
    """Arguments of such lengths without memory of their own: nothing is launched with them."""
    address = (ctypes.addressof(MEMORY) + 15) // 16 * 16
    shapes = {"q": (n.batch, n.seqlen_q, n.heads, spec.head_dim), "k": (n.batch, n.seqlen_k, n.heads_kv, spec.head_dim),
              "v": (n.batch, n.seqlen_k, n.heads_kv, spec.head_dim_v), "out": (n.batch, n.seqlen_q, n.heads, spec.head_dim_v)}
    given = {name: fa2c.tensor(name, address, spec.dtype, shape) for name, shape in shapes.items()}
    given["lse"] = fa2c.tensor("lse", address, "f32", (n.batch, n.heads, n.seqlen_q))
    return given


class TheChoice(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        change = mock.patch.dict(os.environ, {"FA2_CACHE_DIR": folder.name, "FA2_SIMULATOR": "sim:sm_90"})
        change.start()
        self.addCleanup(change.stop)

    def test_it_is_the_kernel_that_the_whole_program_runs(self):
        kernels = Kernels()
        whole = kernels.program(None, CAUSAL)
        choice = Choice(schedules_of(CAUSAL, "sm_90a"), kernels.device(None).properties())
        self.assertEqual(len(choice.schedules), len(whole.kernels()))
        taken = set()
        for lengths in itertools.product((1, 4, 16), (1, 64, 300, 5000), (64, 1000, 1025, 9000), (8, 32), (1, 8)):
            n = Lengths(*lengths)
            (name,) = whole.runs(**tensors(CAUSAL, n))
            variant = name.partition("_variant")[2]
            expected = choice.schedules[int(variant) - 1 if variant else -1]
            self.assertEqual(choice.of(n), expected, f"{n}: {name}")
            taken.add(expected)
        self.assertGreater(len(taken), 2)

    def test_rows_behind_a_schedules_own_have_a_kernel_beside_it(self):
        kernels = Kernels()
        whole = kernels.program(None, FULL)
        counts = set()
        for lengths in ((1, 8192, 8192, 16, 16), (2, 2048, 4096, 32, 8), (1, 100, 100, 4, 4)):
            n = Lengths(*lengths)
            taken = kernels.program_for(n, None, FULL, False)
            expected = whole.runs(**tensors(FULL, n))
            self.assertEqual(len(taken.runs(**tensors(FULL, n))), len(expected), n)
            counts.add(len(expected))
        self.assertEqual(counts, {1, 2})

    def test_no_more_is_compiled_than_is_launched(self):
        kernels, compiled = Kernels(), []
        compile_ptx = kernels_module.compile_ptx

        def counted(text, module):
            compiled.append(text)
            return compile_ptx(text, module)

        with mock.patch.object(kernels_module, "compile_ptx", counted):
            small, large = Lengths(1, 64, 64, 8, 8), Lengths(16, 5000, 5000, 32, 32)
            first = kernels.program_for(small, None, CAUSAL, False)
            self.assertIs(kernels.program_for(small._replace(seqlen_q=63), None, CAUSAL, False), first)
            self.assertEqual(len(compiled), 1)
            self.assertIsNot(kernels.program_for(large, None, CAUSAL, False), first)
            self.assertEqual(len(compiled), 2)
        self.assertEqual([len(p.kernels()) for p in kernels._programs.values()], [1, 1])

    def test_guards(self):
        text = "main\nseqlen_q <= 64 && heads % (4 * heads_kv) == 0: a\nceildiv(seqlen_q, 64) < 2 * device.multiprocessors && " \
               "!(seqlen_k > 8): b\nif(heads != 1, pow2floor(batch) / 2, 0) || min(heads, 2) > max(batch, 1): c"
        choice = Choice(text, {"multiprocessors": 2, "name": "a device"})
        for lengths, expected in (((1, 64, 9, 8, 2), "a"), ((1, 64, 8, 3, 1), "b"), ((1, 300, 8, 3, 3), "c"),
                                  ((5, 300, 9, 2, 2), "c"), ((3, 300, 9, 1, 1), "main"), ((1, 1, 1, 1, 0), "main")):
            self.assertEqual(choice.of(Lengths(*lengths)), expected, lengths)

    def test_lengths(self):
        self.assertEqual(lengths_of((2, 3, 5, 8), (2, 1, 7, 8), True), Lengths(2, 5, 7, 3, 1))
        self.assertEqual(lengths_of((2, 5, 3, 8), (2, 7, 1, 8), False), Lengths(2, 5, 7, 3, 1))


if __name__ == "__main__":
    unittest.main()
