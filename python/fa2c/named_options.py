"""fa2c.attention's window, softcap, bias and alibi_slopes, checked, as operands of a program of scores, and its sinks."""

import math

from .errors import not_supported
from .tracing.options import NamedOptions

_ELEMENTS = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}


def named_options(q, k, causal, window, softcap, bias, alibi_slopes, heads_first):
    """(causal, NamedOptions or None)"""
    seqlen, heads = (2, 1) if heads_first else (1, 2)
    lengths = q.shape[0], q.shape[heads], q.shape[seqlen], k.shape[seqlen]
    found = {}
    if softcap:
        found["softcap"] = "f32", _positive("softcap", softcap)
    if bias is not None:
        found["bias"] = _bias(bias, lengths)
    if alibi_slopes is not None:
        found["slopes"] = _slopes(alibi_slopes, lengths)
    causal, sides = _window(window, causal, lengths)
    found.update(sides)
    if "slopes" in found or sides:
        found["offset"] = "i32", lengths[3] - lengths[2]
    if not found:
        return causal, None
    kinds, values = zip(*(((name, kind), value) for name, (kind, value) in found.items()))
    return causal, NamedOptions(kinds, values)


def checked_sinks(sinks, q, heads_first):
    """As kernels read them."""
    element, heads = _element("sinks", sinks), q.shape[1 if heads_first else 2]
    if tuple(sinks.shape) != (heads,):
        raise ValueError(f"sinks: the shape is {tuple(sinks.shape)}; expected [heads], {(heads,)}")
    if hasattr(sinks, "astype"):  # NumPy's
        return sinks.astype("float32", order="C")
    return (sinks if element == "f32" else sinks.float()).contiguous()


def _positive(name, value):
    value = float(value)
    if not 0 < value < math.inf:
        raise ValueError(f"{name} is {value}; expected a positive, finite number")
    return value


def _window(window, causal, lengths):
    """(causal, the operands of what the kernels' masks do not hide)"""
    if window is not None and (not isinstance(window, (tuple, list)) or len(window) != 2):
        raise TypeError(f"window: got {type(window).__name__}; expected two numbers of keys, (left, right)")
    left, right = (None if side in (None, -1) else side for side in window or (None, None))
    for side in (left, right):
        if side is not None and side < 0:
            raise ValueError(f"window is {tuple(window)}; expected numbers of keys, (left, right), of which -1 or None is all of them")
    if left is not None and left >= lengths[3] - 1:
        left = None
    if right is not None and (right >= lengths[2] - 1 and right or causal is True):
        right = None
    if right == 0 and causal is False:
        causal, right = True, None
    sides = {f"window_{name}": ("i32", side) for name, side in (("left", left), ("right", right)) if side is not None}
    if sides and causal == "top_left":
        raise not_supported("window", window, "with causal=True it is, which as the window is aligned to the last key")
    return causal, sides


def _bias(bias, lengths):
    """Of 4 dimensions, each of which is the attention's or 1."""
    element = _element("bias", bias)
    shape = (1,) * (4 - bias.ndim) + tuple(bias.shape)
    if len(shape) > 4 or any(extent not in (1, wanted) for extent, wanted in zip(shape, lengths)):
        raise ValueError(f"bias: the shape is {tuple(bias.shape)}; expected one that expands to [batch, heads, seqlen_q, seqlen_k], {lengths}")
    return f"tensor<?x?x?x?x{element}>", bias if bias.ndim == 4 else bias.reshape(shape)


def _slopes(slopes, lengths):
    element = _element("alibi_slopes", slopes)
    if tuple(slopes.shape) not in ((lengths[1],), lengths[:2]):
        raise ValueError(f"alibi_slopes: the shape is {tuple(slopes.shape)}; expected [heads] or [batch, heads], {lengths[:2]}")
    return f"tensor<{'?x' * slopes.ndim}{element}>", slopes


def _element(name, tensor):
    if not hasattr(tensor, "dtype"):
        raise TypeError(f"{name}: got {type(tensor).__name__}; expected a tensor")
    dtype = str(tensor.dtype).replace("torch.", "")
    if dtype not in _ELEMENTS:
        raise TypeError(f"{name}: dtype is {tensor.dtype}; expected float32, bfloat16 or float16")
    return _ELEMENTS[dtype]
