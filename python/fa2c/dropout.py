"""fa2c.attention's dropout: its probability, and where its numbers come from."""

import sys

_MOST = 0.998  # 255.5 / 256 rounds to all
_WORD = 1 << 64


def checked_dropout(p, rng, q):
    """(the probability, i32 [4] on q's device: seed and offset, the lower word of each first)"""
    p = float(p)
    if not 0 <= p <= _MOST:
        raise ValueError(f"dropout_p is {p}; expected a probability from 0 to {_MOST}")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        return p, _of_torch(torch, rng, q)
    return p, _of_numpy(rng)


def _of_torch(torch, rng, q):
    if rng is None:
        # Of the device's generator, whose state graphs and checkpoints keep.
        rng = torch.randint(-(1 << 63), (1 << 63) - 1, (2,), dtype=torch.int64, device=q.device)
    elif not isinstance(rng, torch.Tensor):
        rng = torch.tensor(_numbers(rng), dtype=torch.int64).to(q.device)
    elif rng.dtype != torch.int64 or tuple(rng.shape) != (2,):
        raise ValueError(f"rng: got {rng.dtype} {tuple(rng.shape)}; expected torch.int64 (2,), seed and offset")
    elif rng.device != q.device:
        raise ValueError(f"rng: the tensor is on {rng.device}, q is on {q.device}: they must be equal")
    else:
        rng = rng.detach().clone(memory_format=torch.contiguous_format)  # where kernels can read it
    return rng.view(torch.int32)


def _of_numpy(rng):
    import numpy

    if rng is None:
        rng = numpy.random.randint(-(1 << 63), (1 << 63) - 1, 2, numpy.int64)
    elif not isinstance(rng, numpy.ndarray):
        rng = numpy.array(_numbers(rng), numpy.int64)
    elif rng.dtype != numpy.int64 or rng.shape != (2,):
        raise ValueError(f"rng: got {rng.dtype} {rng.shape}; expected int64 (2,), seed and offset")
    words = numpy.empty(16, numpy.int32)  # from a multiple of 16 bytes on
    start = -words.ctypes.data % 16 // 4
    words[start : start + 4] = numpy.ascontiguousarray(rng).view(numpy.int32)
    return words[start : start + 4]


def _numbers(rng):
    try:
        seed, offset = (int(x) for x in rng)
    except TypeError:
        raise TypeError(f"rng: got {type(rng).__name__}; expected int64 [2], or two integers, seed and offset") from None
    return [(x + (1 << 63)) % _WORD - (1 << 63) for x in (seed, offset)]
