"""A launch through ctypes, on the simulator: arguments, strides and scale arrive."""

import ctypes as c
import math
import unittest
from pathlib import Path

try:
    import torch
except ImportError:
    torch = None

from fa2bench.cases import Refused
from fa2bench.runtime import Call, Library, Program

KERNEL = (Path(__file__).resolve().parents[2] / "test" / "Unit" / "Runtime" / "kernels"
          / "naive_forward.ptx")


def simulator():
    """(library, device), or None where the runtime is not there or has no simulator."""
    try:
        library = Library(None)
    except Refused:
        return None
    if not library.calls.fa2rtHasSimulator():
        return None
    return library, library.open_device("sim:sm_80")


SIMULATOR = simulator() if torch and KERNEL.exists() else None


class DeviceTensor:
    """A tensor's copy in the simulator's memory, with PyTorch's names for what a Call asks."""

    def __init__(self, library, device, host):
        self.library, self.device, self.host = library, device, host
        self.shape, self.memory = host.shape, c.c_void_p()
        self.bytes = host.storage().nbytes()
        library.check(library.calls.fa2rtMemoryAllocate(
            device, c.c_size_t(self.bytes), c.byref(self.memory)))
        library.check(library.calls.fa2rtMemoryCopyIn(
            device, self.memory, c.c_void_p(host.storage().data_ptr()), c.c_size_t(self.bytes)))

    def data_ptr(self):
        return self.memory.value + self.host.storage_offset() * self.host.element_size()

    def stride(self):
        return self.host.stride()

    def read(self):
        self.library.check(self.library.calls.fa2rtMemoryCopyOut(
            self.device, c.c_void_p(self.host.storage().data_ptr()), self.memory,
            c.c_size_t(self.bytes)))
        return self.host


@unittest.skipIf(SIMULATOR is None, "it needs PyTorch and a runtime with the simulator")
class Launch(unittest.TestCase):
    def test_a_call_computes_attention(self):
        from fa2bench.check import HeadReference, WrongResult

        torch.manual_seed(0)
        library, device = SIMULATOR
        program = Program(library, device, KERNEL.read_bytes())
        batch, heads, heads_kv, seqlen_q, seqlen_k = 2, 4, 2, 37, 50
        # q is [batch, heads, seqlen, d] in memory, the others [batch, seqlen, heads, d].
        q = torch.randn(batch, heads, seqlen_q, 16).bfloat16().transpose(1, 2)
        k = torch.randn(batch, seqlen_k, heads_kv, 16).bfloat16()
        v = torch.randn(batch, seqlen_k, heads_kv, 8).bfloat16()
        out = torch.full((batch, seqlen_q, heads, 8), math.nan).bfloat16()
        lse = torch.full((batch, heads, seqlen_q), math.nan)
        tensors = {name: DeviceTensor(library, device, host) for name, host in
                   (("q", q), ("k", k), ("v", v), ("out", out), ("lse", lse))}
        scale = 0.3
        call = Call(program, {n: (t, "f32" if n == "lse" else "bf16") for n, t in tensors.items()},
                    {"scale": scale}, lambda count: torch.empty(count, dtype=torch.uint8))
        call(None)
        out, lse = tensors["out"].read(), tensors["lse"].read()
        for b in range(batch):
            for h in range(heads):
                reference = HeadReference(q[b, :, h], k[b, :, h // 2], v[b, :, h // 2], "causal", scale)
                self.assertLessEqual(reference.judge(out[b, :, h], lse[b, h]), 1)
                other = HeadReference(q[b, :, h], k[b, :, 1 - h // 2], v[b, :, 1 - h // 2], "causal",
                                      scale)
                with self.assertRaises(WrongResult):
                    other.judge(out[b, :, h], lse[b, h])
        self.assertEqual([k["name"] for k in program.kernels()], ["naive_forward"])
        program.unload()


if __name__ == "__main__":
    unittest.main()
