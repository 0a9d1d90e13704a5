"""PyTorch's scaled_dot_product_attention by fa2c.

    from fa2c.integrations import sdpa
    sdpa.activate()         # from here on PyTorch's flash-attention backend is fa2c
    sdpa.restore()

Where PyTorch has a registry of flash-attention implementations (2.11 and later), fa2c is one of them, "fa2c", after
`register()`: torch.nn.attention.activate_flash_attention_impl("fa2c") does what activate() does. Without it, activate()
replaces torch.nn.functional.scaled_dot_product_attention, which then sends CUDA tensors without a mask or dropout here.

What the kernels do not cover raises NotImplementedError; SDPA's other backends (torch.nn.attention.sdpa_kernel) are as before.
"""

import functools

import torch

from ..attention import attention
from ..autograd import readable
from ..errors import not_supported
from ..shapes import mask_of
from ..torch_attention import attention as of_tensors
from ..torch_attention import plan_of, prepared

NAME = "fa2c"
_original = None


class _Handle:
    """What the registry keeps; the operations are PyTorch's again when it lets go."""

    def __init__(self, library):
        self.library = library

    def remove(self):
        self.library = None


def register() -> None:
    """Makes "fa2c" known to torch.nn.attention's registry; nothing is active yet."""
    torch.nn.attention.register_flash_attention_impl(NAME, register_fn=_install)


def activate() -> None:
    """From here on scaled_dot_product_attention of CUDA tensors is fa2c's, where PyTorch would choose FlashAttention."""
    if _has_registry():
        register()
        torch.nn.attention.activate_flash_attention_impl(NAME)
        return
    global _original
    if _original is None:
        _original = torch.nn.functional.scaled_dot_product_attention
        torch.nn.functional.scaled_dot_product_attention = _replacement(_original)


def restore() -> None:
    """Undoes activate()."""
    if _has_registry():
        torch.nn.attention.restore_flash_attention_impl()
        return
    global _original
    if _original is not None:
        torch.nn.functional.scaled_dot_product_attention, _original = _original, None


def _has_registry():
    import torch.nn.attention

    return hasattr(torch.nn.attention, "register_flash_attention_impl")


def _install(**options):
    library = torch.library.Library("aten", "IMPL", "CUDA")
    library.impl("_scaled_dot_product_flash_attention", sdpa_forward, "CUDA")
    library.impl("_scaled_dot_product_flash_attention_backward", sdpa_backward, "CUDA")
    library.impl("_flash_attention_forward", flash_forward, "CUDA")
    library.impl("_flash_attention_backward", flash_backward, "CUDA")
    return _Handle(library)


def _replacement(original):
    @functools.wraps(original)
    def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                                     enable_gqa=False):
        covered = (query.is_cuda and query.dtype in (torch.float16, torch.bfloat16) and query.dim() == 4
                   and attn_mask is None and not dropout_p and query.shape[-1] % 8 == 0 and value.shape[-1] % 8 == 0
                   and query.shape[-1] <= 256 and value.shape[-1] <= 256
                   and (enable_gqa or query.shape[1] == key.shape[1]))
        if not covered:
            return original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        return attention(query, key, value, causal="top_left" if is_causal else False, scale=scale)

    return scaled_dot_product_attention


def _refuse(dropout_p, return_debug_mask=False, **others):
    if dropout_p:
        raise not_supported("dropout_p", dropout_p)
    if return_debug_mask:
        raise not_supported("return_debug_mask", return_debug_mask)
    for name, value in others.items():
        if value is not None:
            raise not_supported(name, value)


def _forward(q, k, v, is_causal, scale, heads_first):
    with torch.no_grad():  # PyTorch's own autograd stands around
        return of_tensors(q, k, v, bool(is_causal), scale, (), None, (), False, True, heads_first)


def _backward(dout, q, k, v, out, lse, is_causal, scale, heads_first):
    plan = plan_of(q, k, v, mask_of(is_causal), (), None, torch.are_deterministic_algorithms_enabled(), heads_first)
    return tuple(plan.backward(*prepared(q, k, v, heads_first), readable(out), lse.contiguous(), readable(dout), scale))


def _random_state(q):
    """(seed, offset, debug mask) that PyTorch's operations return, of no dropout."""
    state = torch.zeros(2, dtype=torch.uint64, device=q.device)
    return state, torch.zeros((), dtype=torch.uint64, device=q.device), q.new_empty(0)


def sdpa_forward(query, key, value, dropout_p=0.0, is_causal=False, return_debug_mask=False, *, scale=None):
    """aten::_scaled_dot_product_flash_attention"""
    _refuse(dropout_p, return_debug_mask)
    out, lse = _forward(query, key, value, is_causal, scale, True)
    return out, lse, None, None, query.shape[2], key.shape[2], *_random_state(query)


def sdpa_backward(grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal,
                  philox_seed, philox_offset, *, scale=None):
    """aten::_scaled_dot_product_flash_attention_backward"""
    _refuse(dropout_p)
    return _backward(grad_out, query, key, value, out, logsumexp, is_causal, scale, True)


def flash_forward(query, key, value, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal, return_debug_mask, *, scale=None,
                  window_size_left=None, window_size_right=None, seqused_k=None, alibi_slopes=None):
    """aten::_flash_attention_forward"""
    _refuse(dropout_p, return_debug_mask, cum_seq_q=cum_seq_q, cum_seq_k=cum_seq_k, window_size_left=window_size_left,
            window_size_right=window_size_right, seqused_k=seqused_k, alibi_slopes=alibi_slopes)
    return *_forward(query, key, value, is_causal, scale, False), *_random_state(query)


def flash_backward(grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p, is_causal,
                   rng_state, unused, *, scale=None, window_size_left=None, window_size_right=None):
    """aten::_flash_attention_backward"""
    _refuse(dropout_p, False, cum_seq_q=cum_seq_q, cum_seq_k=cum_seq_k, window_size_left=window_size_left,
            window_size_right=window_size_right)
    return _backward(grad_out, query, key, value, out, logsumexp, is_causal, scale, False)
