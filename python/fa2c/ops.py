"""fa2c.attention as registered operations, for torch.compile, torch.export, fake tensors and tensor subclasses.

Eager calls go by autograd.Function, which costs the host a fraction of it.
"""

from typing import List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from . import torch_attention
from .autograd import empty_of_width, readable
from .operands import of_types
from .shapes import check_scale, check_shapes


# A package that is loaded twice, as the hub's kernels may be, is one of two names.
_NAMESPACE = __name__.split(".")[0]


def _names(beside):
    return tuple(beside.split(",")) if beside else ()


@torch.library.custom_op(f"{_NAMESPACE}::attention", mutates_args=())
def forward(q: Tensor, k: Tensor, v: Tensor, tensors: Sequence[Tensor], numbers: Sequence[float], mask: str, scale: Optional[float],
            beside: str, program: Optional[str], deterministic: bool, heads_first: bool) -> Tuple[Tensor, Tensor]:
    """(out, lse); `tensors` and `numbers` are the operands of what `beside` names ("sink,dropout"), and of the program."""
    torch_attention.check(q, k, v, heads_first)
    plan = torch_attention.plan_of(q, k, v, mask, _names(beside), program, deterministic, heads_first)
    out = empty_of_width(q, v.shape[-1])
    q, k, v = torch_attention.prepared(q, k, v, heads_first, says_copies=False)
    return plan.forward(q, k, v, scale, out, of_types(plan.operands.values(), tensors, numbers))


@forward.register_fake
def _(q, k, v, tensors, numbers, mask, scale, beside, program, deterministic, heads_first):
    check_shapes(q.shape, k.shape, v.shape, heads_first)
    heads, seqlen = (1, 2) if heads_first else (2, 1)
    lse = q.new_empty((q.shape[0], q.shape[heads], q.shape[seqlen]), dtype=torch.float32)
    return empty_of_width(q, v.shape[-1]), lse


@torch.library.custom_op(f"{_NAMESPACE}::attention_backward", mutates_args=())
def backward(dout: Tensor, dlse: Optional[Tensor], q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, tensors: Sequence[Tensor],
             numbers: Sequence[float], wanted: Sequence[bool], mask: str, scale: Optional[float], beside: str,
             program: Optional[str], deterministic: bool, heads_first: bool) -> List[Tensor]:
    """[dq, dk, dv, and the gradients of those of the tensors that are wanted]"""
    torch_attention.check(q, k, v, heads_first)
    plan = torch_attention.plan_of(q, k, v, mask, _names(beside), program, deterministic, heads_first)
    gradients = tuple(empty_of_width(x, x.shape[-1]) for x in (q, k, v))
    q, k, v = torch_attention.prepared(q, k, v, heads_first, says_copies=False)
    operands = of_types(plan.operands.values(), tensors, numbers)
    all_wanted = of_types(plan.operands.values(), wanted, [False] * len(numbers))
    all_gradients = plan.backward(q, k, v, readable(out), lse.contiguous(), readable(dout), scale, operands, all_wanted, gradients, dlse)
    return [gradient for gradient in all_gradients if gradient is not None]


@backward.register_fake
def _(dout, dlse, q, k, v, out, lse, tensors, numbers, wanted, mask, scale, beside, program, deterministic, heads_first):
    gradients = [empty_of_width(x, x.shape[-1]) for x in (q, k, v)]
    return gradients + [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x, is_wanted in zip(tensors, wanted) if is_wanted]


def _save(ctx, inputs, output):
    q, k, v, tensors, ctx.numbers, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output, *tensors)
    ctx.wanted = [x.requires_grad for x in tensors]
    ctx.set_materialize_grads(False)


def _differentiate(ctx, dout, dlse):
    q, k, v, out, lse, *tensors = ctx.saved_tensors
    dout = torch.zeros_like(out) if dout is None else dout
    dq, dk, dv, *rest = _operations.attention_backward(dout, dlse, q, k, v, out, lse, tensors, ctx.numbers, ctx.wanted, *ctx.options)
    rest = iter(rest)
    of_tensors = [next(rest) if is_wanted else None for is_wanted in ctx.wanted]
    of_numbers = None if ctx.numbers else []  # PyTorch takes an empty list for one of tensors
    return dq, dk, dv, of_tensors, of_numbers, *[None] * 6


forward.register_autograd(_differentiate, setup_context=_save)
_operations = getattr(torch.ops, _NAMESPACE)


def attention(q, k, v, causal, scale, beside, program, operands, deterministic, return_lse, heads_first):
    """As torch_attention.attention."""
    from .shapes import mask_of

    tensors = [x for x in operands if isinstance(x, Tensor)]
    numbers = [float(x) for x in operands if not isinstance(x, Tensor)]
    wants_grad = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *tensors))
    if deterministic is None:
        deterministic = wants_grad and torch.are_deterministic_algorithms_enabled()
    options = mask_of(causal), check_scale(scale), ",".join(beside), program, deterministic, heads_first
    out, lse = _operations.attention(q, k, v, tensors, numbers, *options)
    return (out, lse) if return_lse else out
