"""neighbours.py alone FOLDER: from FOLDER/q.npy, q-alone.npy, in which fifteen of every sixteen rows are other ones.
neighbours.py same FOLDER: whether the sixteenth rows of FOLDER/out.npy and out-alone.npy are the same bits."""

import sys

import numpy as np

what, folder = sys.argv[1:]
if what == "alone":
    q = np.load(f"{folder}/q.npy")  # [batch, seqlen, heads, d]
    others = np.arange(q.shape[1]) % 16 != 5
    q[:, others] = q[:, others][:, ::-1] * np.float32(1 / 64)
    np.save(f"{folder}/q-alone.npy", q)
else:
    one, other = (np.load(f"{folder}/{name}.npy")[:, 5::16].astype(np.float32) for name in ("out", "out-alone"))
    assert one.size > 100 and np.isfinite(one).all()
    sys.exit(not np.array_equal(one.view(np.uint32), other.view(np.uint32)))
