"""bf16 as NumPy has it: its bits."""

import numpy as np


def bf16(x):
    """The nearest bf16, as bits."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def value(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
