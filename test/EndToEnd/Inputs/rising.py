"""rising.py FOLDER POWERS VALUES: q.npy, k.npy, v.npy of head dim 64 whose scores rise by POWERS powers of two from the last 64 keys, which
kernels take first, to one key in the middle, with noise below; every other row does not rise. Values of v are around 2^VALUES."""
import sys

import numpy as np

folder, powers, values = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
random = np.random.default_rng(7)
q = np.zeros((1, 130, 2, 64), np.float32)
k = np.zeros((1, 333, 2, 64), np.float32)
# scale is 1/8: the score of row i and key j is q0 k0 / 8 + q1 k1 / 8, in powers of two times ln 2.
q[..., 0] = np.where(np.arange(130) % 2 == 0, 8, 0)[None, :, None]
q[..., 1] = 1
k[:, 100, :, 0] = powers * np.log(2)
k[..., 1] = random.standard_normal((1, 333, 2))
v = (random.standard_normal((1, 333, 2, 64)) * 2.0**values).astype(np.float32)
for name, x in (("q", q), ("k", k), ("v", v)):
    np.save(f"{folder}/{name}.npy", x)
