"""Runs the kernels of toy-kernel.test on the simulator, beside float64.

usage: toy-kernel.py PTX QUERIES KEYS HEADS SEED

For each tile of 64 queries Q of a head, over all heads and all tiles of 64 keys K and values V, rows behind the last being zeros:

    X = bf16(K Q^T)    scores = bf16(sum X Q)    out = bf16(sum (X^T K + X^T V))
"""
import sys

import numpy as np
from bfloat16 import bf16, value
from fa2c.arguments import tensor
from fa2c.runtime import Device

path, queries, keys, heads, seed = sys.argv[1], *map(int, sys.argv[2:6])
batch, tile = 2, 64


def tiles(name):
    """[batch, heads, tiles, 64, 64]"""
    x = value(arrays[name]).transpose(0, 2, 1, 3)
    x = np.pad(x, [(0, 0), (0, 0), (0, -x.shape[2] % tile), (0, 0)])
    return x.reshape(batch, heads, -1, tile, tile)


def compare(name, sums, magnitudes):
    def rows(x):
        return x.reshape(batch, heads, -1, tile)[:, :, :queries].transpose(0, 2, 1, 3)

    got, expected = value(arrays[name]), rows(sums)
    # bf16 rounds the result by 2^-8 of it at most. Where f32's sum of q k lies on the other side of the middle of two bf16, X is one of
    # them here and the other there: by 2^-7 of it, but for a few of thousands of summands.
    wrong = ~(np.abs(got - expected) <= 1.01 * 2.0**-8 * np.abs(expected) + 2.0**-12 * rows(magnitudes))
    if wrong.any():
        sys.exit(f"{name}: expected {expected[wrong][:4]}, got {got[wrong][:4]} ({wrong.sum()} of {wrong.size} are wrong)")
    print(f"{name}: {got.size} values are right")


random = np.random.default_rng(seed)
arrays = {name: bf16(random.standard_normal((batch, n, heads, tile))) for name, n in (("q", queries), ("k", keys), ("v", keys))}
for name in ("out", "scores"):
    arrays[name] = np.full((batch, queries, heads, tile), 0x7FC0, np.uint16)  # NaN
device = Device(f"sim:sm_90?strict&seed={seed}")
with open(path) as file:
    program = device.load(file.read())
program(**{name: tensor(name, array.ctypes.data, "bf16", array.shape) for name, array in arrays.items()})
device.synchronize()

q, k, v = map(tiles, "qkv")
x = value(bf16(np.einsum("bgjkc,bhiqc->bhigjkq", k, q)))
signs = {False: lambda a: a, True: np.abs}
for name, term in (("scores", lambda f: np.einsum("bhigjkq,bhiqc->bhikc", f(x), f(q))),
                   ("out", lambda f: np.einsum("bhigjkq,bgjkc->bhiqc", f(x), f(k)) + np.einsum("bhigjkq,bgjkc->bhiqc", f(x), f(v)))):
    compare(name, *(term(signs[magnitude]) for magnitude in (False, True)))
