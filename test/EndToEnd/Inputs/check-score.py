"""check-score.py FOLDER SCALE EXPRESSION: compares out.npy and lse.npy in FOLDER with attention in float64 on q.npy,
k.npy and v.npy there, whose scores are EXPRESSION of s (scale q.k), b, h, i and j (batch, head, row and column)."""
import sys

import numpy as np

folder, scale, expression = sys.argv[1], float(sys.argv[2]), sys.argv[3]
q, k, v, out, lse = (np.load(f"{folder}/{name}.npy").astype(np.float64) for name in ("q", "k", "v", "out", "lse"))
group = q.shape[2] // k.shape[2]
rows, cols = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])[None, :]
for batch in range(q.shape[0]):
    for head in range(q.shape[2]):
        names = {"s": scale * q[batch, :, head] @ k[batch, :, head // group].T, "b": batch, "h": head, "i": rows, "j": cols}
        s = eval(expression, {"np": np}, names) + np.zeros((rows.size, cols.size))
        most = s.max(1, keepdims=True)
        empty = most[:, 0] == -np.inf  # no key is seen
        most[empty] = 0
        p = np.exp(s - most)
        total = p.sum(1, keepdims=True)
        total[empty] = 1
        want_lse = (most + np.log(total))[:, 0]
        assert (lse[batch, head][empty] == -np.inf).all(), f"batch {batch} head {head}: lse of a row without keys is not -inf"
        assert (out[batch, empty, head] == 0).all(), f"batch {batch} head {head}: out of a row without keys is not 0"
        lse[batch, head][empty] = want_lse[empty]
        p /= total
        want = p @ v[batch, :, head // group]
        # P rounded to bf16, by 2^-8 at most, and likewise out.
        allowed = 2.0**-8 * (p @ np.abs(v[batch, :, head // group]) + np.abs(want))
        errors = np.abs(lse[batch, head] - want_lse) - 1e-5 * (1 + np.abs(want_lse))
        assert (errors <= 0).all(), f"batch {batch} head {head}: lse is off by {errors.max()} more than allowed"
        errors = np.abs(out[batch, :, head] - want) - allowed
        assert (errors <= 0).all(), f"batch {batch} head {head}: out is off by {errors.max()} more than allowed"
        # The program matters: plain attention would not pass.
        assert np.abs(names["s"] - s).max() > 0.1 or expression == "s"
