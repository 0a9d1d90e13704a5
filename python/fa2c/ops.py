"""fa2c.attention as registered operations, for torch.compile, torch.export, fake tensors and tensor subclasses.

Eager calls go by autograd.Function, which costs the host a fraction of it.
"""

from typing import Optional, Tuple

import torch
from torch import Tensor

from . import torch_attention
from .autograd import empty_of_width, readable
from .shapes import check_scale, check_shapes


@torch.library.custom_op("fa2c::attention", mutates_args=())
def forward(q: Tensor, k: Tensor, v: Tensor, mask: str, scale: Optional[float], program: Optional[str],
            deterministic: bool, heads_first: bool) -> Tuple[Tensor, Tensor]:
    """(out, lse)"""
    torch_attention.check(q, k, v, heads_first)
    plan = torch_attention.plan_of(q, k, v, mask, program, deterministic, heads_first)
    out = empty_of_width(q, v.shape[-1])
    q, k, v = torch_attention.prepared(q, k, v, heads_first, says_copies=False)
    return plan.forward(q, k, v, scale, out)


@forward.register_fake
def _(q, k, v, mask, scale, program, deterministic, heads_first):
    check_shapes(q.shape, k.shape, v.shape, heads_first)
    heads, seqlen = (1, 2) if heads_first else (2, 1)
    lse = q.new_empty((q.shape[0], q.shape[heads], q.shape[seqlen]), dtype=torch.float32)
    return empty_of_width(q, v.shape[-1]), lse


@torch.library.custom_op("fa2c::attention_backward", mutates_args=())
def backward(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, mask: str, scale: Optional[float],
             program: Optional[str], deterministic: bool, heads_first: bool) -> Tuple[Tensor, Tensor, Tensor]:
    """(dq, dk, dv)"""
    torch_attention.check(q, k, v, heads_first)
    plan = torch_attention.plan_of(q, k, v, mask, program, deterministic, heads_first)
    gradients = tuple(empty_of_width(x, x.shape[-1]) for x in (q, k, v))
    q, k, v = torch_attention.prepared(q, k, v, heads_first, says_copies=False)
    return plan.backward(q, k, v, readable(out), lse.contiguous(), readable(dout), scale, gradients)


@backward.register_fake
def _(dout, q, k, v, out, lse, mask, scale, program, deterministic, heads_first):
    return tuple(empty_of_width(x, x.shape[-1]) for x in (q, k, v))


def _save(ctx, inputs, output):
    q, k, v, *ctx.options = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx, dout, _):
    # A program, too: what compiles it says that gradients are not there yet.
    return (*torch.ops.fa2c.attention_backward(dout, *ctx.saved_tensors, *ctx.options), *[None] * 5)


forward.register_autograd(_differentiate, setup_context=_save)


def attention(q, k, v, causal, scale, program, deterministic, return_lse, heads_first):
    """As torch_attention.attention."""
    from .shapes import mask_of

    wants_grad = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    if return_lse and wants_grad:
        raise NotImplementedError(
            "return_lse: under torch.compile, lse has no gradient, which would be dropped in silence; take it under "
            "torch.no_grad(), or outside of what is compiled"
        )
    if deterministic is None:
        deterministic = wants_grad and torch.are_deterministic_algorithms_enabled()
    out, lse = torch.ops.fa2c.attention(q, k, v, mask_of(causal), check_scale(scale), program, deterministic, heads_first)
    return (out, lse) if return_lse else out
