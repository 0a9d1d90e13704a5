"""fa2c.attention on arrays of the host: NumPy's, and others that speak DLPack."""

import sys

from .arguments import array_dtype
from .choice import lengths_of
from .kernels import kernels
from .shapes import check_shapes, mask_of
from .simulator import check_size
from .specification import Specification


def attention(q, k, v, causal, scale, beside, program, operands, deterministic, return_lse, heads_first):
    """As fa2c.attention; the results are NumPy's arrays for NumPy's, else of q's library."""
    import numpy

    given = q
    q, k, v = (_array(numpy, name, x) for name, x in (("q", q), ("k", k), ("v", v)))
    for name, x in (("k", k), ("v", v)):
        if x.dtype != q.dtype:
            raise TypeError(f"{name}: dtype is {x.dtype}, that of q is {q.dtype}: they must be equal")
    check_shapes(q.shape, k.shape, v.shape, heads_first)
    check_size(q.shape, k.shape, v.shape, heads_first)
    out, lse = _run(numpy, q, k, v, causal, scale, beside, program, operands, heads_first)
    results = [_as_given(x, given, numpy) for x in ((out, lse) if return_lse else (out,))]
    return tuple(results) if return_lse else results[0]


def _run(numpy, q, k, v, causal, scale, beside, program, operands, heads_first):
    specification = Specification(array_dtype(q), q.shape[3], v.shape[3], mask_of(causal), program, beside)
    kernel = kernels.program_for(lengths_of(q.shape, k.shape, heads_first), None, specification, heads_first)
    heads, seqlen = (1, 2) if heads_first else (2, 1)
    out = numpy.empty((*q.shape[:3], v.shape[3]), q.dtype)
    lse = numpy.empty((q.shape[0], q.shape[heads], q.shape[seqlen]), numpy.float32)
    given = {name: _operand(numpy, x, heads_first) for name, x in zip(specification.operands, operands)}
    if scale is not None:
        given["scale"] = scale
    kernel(q=q, k=k, v=v, out=out, lse=lse, **given)
    return out, lse


def _operand(numpy, value, heads_first):
    """As fa2c.operands has it, of NumPy's arrays."""
    if not isinstance(value, numpy.ndarray):
        if isinstance(value, (int, float)):
            return value
        from .operands import operand

        return operand(value.detach(), value.device, heads_first)
    return value.swapaxes(1, 2) if heads_first and value.ndim == 4 else value


def _array(numpy, name, x):
    """A NumPy array of the same memory, or a copy where the kernels cannot read it."""
    if not isinstance(x, numpy.ndarray):
        x = _from_dlpack(numpy, name, x)
    if array_dtype(x) not in ("bf16", "f16"):
        raise TypeError(f"{name}: dtype is {x.dtype}; expected float16, or bfloat16 of the package ml_dtypes")
    return numpy.array(x, order="C") if _lies_badly(x) else x


def _lies_badly(x):
    size = x.itemsize
    strides_are_right = x.ndim and x.strides[-1] == size and all(s % (8 * size) == 0 for s in x.strides[:-1])
    return not strides_are_right or x.ctypes.data % 16


def _from_dlpack(numpy, name, x):
    if not hasattr(x, "__dlpack__"):
        raise TypeError(
            f"{name}: got {type(x).__name__}; expected a PyTorch tensor, a NumPy array, or another array that has __dlpack__"
        )
    kind, _ = x.__dlpack_device__()
    if int(kind) != 1:
        raise TypeError(f"{name}: a {type(x).__name__} on a GPU; pass torch.from_dlpack({name}), which shares its memory")
    return numpy.from_dlpack(x)


def _as_given(result, given, numpy):
    """The result as an array of the library that `given` is of."""
    if isinstance(given, numpy.ndarray):
        return result
    of = given.__array_namespace__() if hasattr(given, "__array_namespace__") else sys.modules[type(given).__module__]
    convert = getattr(of, "from_dlpack", None)
    return convert(result) if convert else result
