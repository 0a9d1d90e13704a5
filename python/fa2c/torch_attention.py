"""fa2c.attention on PyTorch's tensors."""

import warnings

import torch

from .autograd import Call, Plan, apply
from .library import Error
from .shapes import check_shapes, mask_of
from .simulator import check_size
from .specification import Specification

_ARGUMENT_ERROR = 1
_DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16"}
_PLAIN = {torch.Tensor, torch.nn.Parameter}
_plans = {}  # by what they depend on; each is made once and kept, as graphs may hold its kernels
_calls = {}  # by shapes, what is the same in each call of them
_MOST_CALLS = 1024

# What each call asks, a third of a microsecond cheaper by these names.
_is_compiling, _is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled
_dispatch_modes, _any_autocast = torch._C._len_torch_dispatch_stack, torch._C._is_any_autocast_enabled
_transforms = torch._C._functorch.peek_interpreter_stack


def attention(q, k, v, causal, scale, beside, program, operands, deterministic, return_lse, heads_first):
    """As fa2c.attention, of checked options; `program` is a region of scores, or None, `beside` names of what else there is, and `operands` what
    both are given by."""
    if _is_compiling() or _dispatch_modes() or not (type(q) in _PLAIN and type(k) in _PLAIN and type(v) in _PLAIN):
        return registered(q, k, v, causal, scale, beside, program, operands, deterministic, return_lse, heads_first)
    if _transforms() is not None:
        raise NotImplementedError(
            "fa2c.attention does not run under torch.func's transforms (vmap, grad, jvp, ...): give it the batch as its "
            "first dimension, and take gradients by autograd"
        )
    if _any_autocast():
        q, k, v = autocast(q, k, v)
    wants_grad = _is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad or (operands and _requires_grad(operands)))
    if not wants_grad:
        deterministic = False
    elif deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    options = causal, beside, program, deterministic, heads_first
    if q.is_cuda:
        try:
            return _run(q, k, v, options, scale, operands, return_lse, wants_grad)
        except Error as error:
            if error.status != _ARGUMENT_ERROR:
                raise
    # The runtime takes no such tensors: either checks say better why, or copies will do.
    q, k, v = prepared(q, k, v, heads_first)
    return _run(q, k, v, options, scale, operands, return_lse, wants_grad)


def _run(q, k, v, options, scale, operands, return_lse, wants_grad):
    # Of k the runtime sees whether it fits.
    key = (q.dtype, q.get_device(), q.shape, q.stride(), v.shape, options)
    call = _calls.get(key) or _make_call(key, q, k, v)
    if wants_grad:
        return apply(q, k, v, call, scale, return_lse, *operands)
    out, lse = call.forward(q, k, v, scale, return_lse, operands)
    return (out, lse) if return_lse else out


def _make_call(key, q, k, v):
    causal, beside, program, deterministic, heads_first = key[-1]
    check(q, k, v, heads_first)
    plan = plan_of(q, k, v, mask_of(causal), beside, program, deterministic, heads_first)
    if len(_calls) >= _MOST_CALLS:
        _calls.clear()
    call = _calls[key] = Call(plan, q, v)
    return call


def plan_of(q, k, v, mask, beside, program, deterministic, heads_first):
    """The kernels for such tensors."""
    key = (q.dtype, q.get_device(), q.shape[-1:], v.shape[-1:], mask, beside, program, deterministic, heads_first)
    plan = _plans.get(key)
    if plan is None:
        ordinal = q.get_device() if q.is_cuda else None
        specification = Specification(_DTYPES[q.dtype], q.shape[-1], v.shape[-1], mask, program, beside)
        plan = _plans[key] = Plan(ordinal, specification, heads_first, deterministic)
    return plan


def _requires_grad(operands):
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in operands)


def registered(q, k, v, causal, scale, beside, program, operands, deterministic, return_lse, heads_first):
    """By the registered operation, which traces, fake tensors and other subclasses go by."""
    from . import ops

    q, k, v = autocast(q, k, v)
    check(q, k, v, heads_first)
    return ops.attention(q, k, v, causal, scale, beside, program, operands, deterministic, return_lse, heads_first)


def autocast(q, k, v):
    """In the type of torch.autocast where it holds for their device."""
    if not isinstance(q, torch.Tensor) or not torch.is_autocast_enabled(q.device.type):
        return q, k, v
    dtype = torch.get_autocast_dtype(q.device.type)
    return tuple(x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in (q, k, v))


def check(q, k, v, heads_first):
    """Raises TypeError or ValueError for what the tensors cannot be."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: got {type(x).__name__}; expected a PyTorch tensor, as q is")
        if x.dtype not in _DTYPES:
            raise TypeError(
                f"{name}: dtype is {x.dtype}; expected torch.bfloat16 or torch.float16 ({name}.bfloat16(), or torch.autocast)"
            )
        if x.dtype != q.dtype:
            raise TypeError(f"{name}: dtype is {x.dtype}, that of q is {q.dtype}: they must be equal")
        if x.device.type not in ("cuda", "cpu"):
            raise ValueError(f"{name}: the tensor is on {x.device}; expected CUDA, or the CPU for the simulator")
        if x.device != q.device:
            raise ValueError(f"{name}: the tensor is on {x.device}, q is on {q.device}: they must be equal")
    check_shapes(q.shape, k.shape, v.shape, heads_first)


def prepared(q, k, v, heads_first, says_copies=True):
    """The tensors, checked, or copies of those that the kernels cannot read as they lie."""
    check(q, k, v, heads_first)
    if not q.is_cuda:
        check_size(q.shape, k.shape, v.shape, heads_first)
    return tuple(_readable(name, x, says_copies) for name, x in (("q", q), ("k", k), ("v", v)))


def _readable(name, x, says_copies):
    why = unreadable(x.shape, x.stride(), x.data_ptr())
    if why is None:
        return x
    if says_copies:
        warnings.warn(f"{name} is copied: {why}", stacklevel=6)
    return x.clone(memory_format=torch.contiguous_format)


def unreadable(shape, strides, address):
    """Why the kernels cannot read such a tensor as it lies in memory, or None."""
    if 0 in shape:
        return None
    if strides[-1] != 1 and shape[-1] > 1:
        return f"its head dim's stride is {strides[-1]}, which must be 1"
    for d, (extent, stride) in enumerate(zip(shape[:-1], strides)):
        if extent > 1 and stride % 8:
            return f"its stride {d} is {stride}, which must be a multiple of 8 elements"
    if address % 16:
        return f"its address is {address % 16} bytes past a multiple of 16"
    return None
