"""Runs the kernel of test/GPUTransforms/three-roles.mlir on the simulator: out = sum over tiles of bf16(q k^T) k.

usage: three-roles.py PTX QUERIES KEYS HEADS [SEED]
"""
import sys

import numpy as np
from fa2c.arguments import tensor
from fa2c.runtime import Device

path, queries, keys, heads, seed = sys.argv[1], *map(int, (sys.argv + ["0"])[2:6])
batch, columns = 2, 64


def bf16(x):
    """The nearest bf16, as bits."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def value(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


random = np.random.default_rng(seed)
q, k = (bf16(random.standard_normal((batch, n, heads, columns))) for n in (queries, keys))
out = np.full((batch, queries, heads, columns), 0x7FC0, np.uint16)  # NaN
device = Device(f"sim:sm_90?strict&seed={seed}")
with open(path) as file:
    program = device.load(file.read())
arrays = {"q": q, "k": k, "out": out}
program(**{name: tensor(name, array.ctypes.data, "bf16", array.shape) for name, array in arrays.items()})
device.synchronize()

scores = np.einsum("bqhd,bkhd->bhqk", value(q), value(k))
expected = np.einsum("bhqk,bkhd->bqhd", scores, value(k))
# bf16 rounds each score and the output by 2^-8 of it at most; f32 adds much less.
bound = 1.01 * 2.0**-8 * (np.einsum("bhqk,bkhd->bqhd", np.abs(scores), np.abs(value(k))) + np.abs(expected))
error = np.abs(value(out) - expected)
if not (error <= bound).all():
    sys.exit(f"expected {expected[~(error <= bound)][:4]}, got {value(out)[~(error <= bound)][:4]}")
print(f"{out.size} values are right")
