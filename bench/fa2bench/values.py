"""What the drawn tensors look like. Kernels that assume something of their inputs are fast on normal values; a model's
scores are wider, peaked, or rise and fall along the sequence."""

import math

LN2 = math.log(2)


def _ramp(q, k, step, rises):
    """Scores change by `step` every 64 keys; `rises`: from the last key to the first, the order in which kernels of
    this project take them, and so against every maximum that was known before."""
    import torch
    length = k.shape[2]
    at = torch.arange(length, device=k.device) // 64
    if rises:
        at = at.flip(0)
    q[..., 0] = 1
    k[..., 0] = (at * (step * math.sqrt(k.shape[3]))).to(k.dtype)


def _wider(factor):
    def apply(q, k):
        q *= factor
    return apply


def _sink(q, k):
    """The first key is 20 nats above what the others' first column gives."""
    q[..., 0] = 1
    k[..., 0] = 0
    k[:, :, 0, 0] = 20 * math.sqrt(k.shape[3])


# In place on q and k [batch, heads, seqlen, head_dim], drawn from a normal distribution: scores of standard deviation 1.
VALUES = {
    "normal": lambda q, k: None,
    "x3": _wider(3),
    "x6": _wider(6),
    "sink": _sink,
    "recency": lambda q, k: _ramp(q, k, 64 * 0.05, rises=False),  # 0.05 nats a key, as ALiBi
    "falling": lambda q, k: _ramp(q, k, 8 * LN2, rises=False),
    "rising": lambda q, k: _ramp(q, k, 8 * LN2, rises=True),
}
