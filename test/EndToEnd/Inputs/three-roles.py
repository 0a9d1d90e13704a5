"""Runs the kernels of three-roles.test on the simulator.

usage: three-roles.py PTX QUERIES KEYS HEADS SEED [nested]

out = sum over tiles of bf16(q k^T) k. With `nested` the sum goes over all heads of k too, and the sum over tiles of q k^T is another output.
"""
import sys

import numpy as np
from bfloat16 import bf16, value
from fa2c.arguments import tensor
from fa2c.runtime import Device

path, queries, keys, heads, seed = sys.argv[1], *map(int, sys.argv[2:6])
nested = sys.argv[6:] == ["nested"]
batch, columns = 2, 64


def compare(name, got, expected, bound):
    # f32 sums add much less than bf16's roundings do.
    wrong = ~(np.abs(value(got) - expected) <= 1.01 * 2.0**-8 * (bound + np.abs(expected)) + 1e-4)
    if wrong.any():
        sys.exit(f"{name}: expected {expected[wrong][:4]}, got {value(got)[wrong][:4]} ({wrong.sum()} of {wrong.size} are wrong)")
    print(f"{name}: {got.size} values are right")


random = np.random.default_rng(seed)
arrays = {name: bf16(random.standard_normal((batch, n, heads, columns))) for name, n in (("q", queries), ("k", keys))}
for name in ("out", "scores") if nested else ("out",):
    arrays[name] = np.full((batch, queries, heads, columns), 0x7FC0, np.uint16)  # NaN
device = Device(f"sim:sm_90?strict&seed={seed}")
with open(path) as file:
    program = device.load(file.read())
program(**{name: tensor(name, array.ctypes.data, "bf16", array.shape) for name, array in arrays.items()})
device.synchronize()

q, k = value(arrays["q"]), value(arrays["k"])
# Of each head h of the queries, with heads g of the keys.
products = np.einsum("bqhd,bkgd->bhgqk", q, k)
if not nested:
    products *= np.eye(heads)[None, :, :, None, None]
# bf16 rounds each product by 2^-8 of it at most.
compare("out", arrays["out"], np.einsum("bhgqk,bkgd->bqhd", products, k), np.einsum("bhgqk,bkgd->bqhd", np.abs(products), np.abs(k)))
if nested:
    padding = [(0, 0)] * 4 + [(0, -keys % columns)]
    tiles = np.pad(products, padding).reshape(batch, heads, heads, queries, -1, columns)
    compare("scores", arrays["scores"], tiles.sum(axis=(2, 4)).transpose(0, 2, 1, 3), 0)
