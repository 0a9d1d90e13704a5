"""Kernels of backward that the batch chooses between give dk and dv the same bits."""

import ctypes
import os
import random
import struct
import tempfile
import unittest
from dataclasses import replace
from unittest import mock

import fa2c
from fa2c.choice import Choice
from fa2c.kernels import Kernels, schedules_of
from fa2c.specification import Specification

BATCH, HEADS, HEADS_KV, QUERIES, KEYS = 1, 4, 2, 150, 210


class Memory:
    """Of an argument, at a multiple of 16 bytes."""

    def __init__(self, name, dtype, shape, values=None):
        self.name, self.dtype, self.shape = name, dtype, shape
        elements = 1
        for extent in shape:
            elements *= extent
        self.size = elements * (2 if dtype == "bf16" else 4)
        self.bytes = ctypes.create_string_buffer(b"\xff" * (self.size + 16))
        self.address = -(-ctypes.addressof(self.bytes) // 16) * 16
        if values is not None:
            ctypes.memmove(self.address, values(elements), self.size)

    @property
    def tensor(self):
        return fa2c.tensor(self.name, self.address, self.dtype, self.shape)

    @property
    def contents(self):
        return ctypes.string_at(self.address, self.size)


def drawn(rng):
    """Numbers in bf16, whose lower bits a f32 has no room for."""
    return lambda count: b"".join(struct.pack("<f", rng.gauss(0, 1))[2:] for _ in range(count))


class Alternatives(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        change = mock.patch.dict(os.environ, {"FA2_CACHE_DIR": folder.name})
        change.start()
        self.addCleanup(change.stop)

    def gradients_of(self, arch, head_dim, mask):
        """{schedule: (dk, dv)} of what the batch chooses between."""
        os.environ["FA2_SIMULATOR"] = f"sim:{arch.rstrip('a')}?strict"
        kernels = Kernels()
        spec = Specification("bf16", head_dim, head_dim, mask)
        gradient = spec.gradient(False, (), False)
        text = schedules_of(gradient, arch)
        guards = [line.split(": ", 1)[0] for line in text.splitlines()[1:]]
        self.assertTrue(any("batch" in guard for guard in guards), text)
        rng = random.Random(head_dim)
        rows = {"q": (QUERIES, HEADS), "k": (KEYS, HEADS_KV), "v": (KEYS, HEADS_KV), "dout": (QUERIES, HEADS)}
        given = {name: Memory(name, "bf16", (BATCH, *extents, head_dim), drawn(rng)) for name, extents in rows.items()}
        given["out"] = Memory("out", "bf16", given["q"].shape)
        given["lse"] = Memory("lse", "f32", (BATCH, HEADS, QUERIES))
        device = kernels.device(None)
        forward = kernels.program(None, replace(spec, schedule=Choice(schedules_of(spec, arch), device.properties()).schedules[-1]))
        forward(**{name: given[name].tensor for name in ("q", "k", "v", "out", "lse")})
        found = {}
        for schedule in Choice(text, device.properties()).schedules:
            results = {name: Memory(name, "bf16", given[name[1:]].shape) for name in ("dq", "dk", "dv")}
            program = kernels.program(None, replace(gradient, schedule=schedule))
            program(**{name: value.tensor for name, value in {**given, **results}.items()})
            found[schedule] = results["dk"].contents, results["dv"].contents
        return found

    def test_the_batch_does_not_change_bits(self):
        for case in (("sm_90a", 128, "causal"), ("sm_90a", 32, "none"), ("sm_90a", 48, "causal"), ("sm_80", 64, "causal"),
                     ("sm_80", 152, "causal"), ("sm_80", 256, "none")):
            with self.subTest(case):
                found = self.gradients_of(*case)
                self.assertGreater(len(found), 1)
                self.assertEqual(len(set(found.values())), 1, [*found])


if __name__ == "__main__":
    unittest.main()
