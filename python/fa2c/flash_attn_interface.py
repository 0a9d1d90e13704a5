"""flash_attn's functions, by fa2c.

Signatures are those of flash_attn 2.8; keywords that flash_attn 3 added stand behind them. `import
fa2c.flash_attn_interface as flash_attn_interface` is enough for most programs.

What the kernels do not cover is refused by name: rotary embeddings, block tables. num_splits, pack_gqa and sm_margin choose how flash_attn computes, not what: any value is taken.
Head dims that are no multiples of 8 are padded with zeros, as flash_attn does.

With return_attn_probs the result is (out, softmax_lse, None): what dropout drops follows from its seed (fa2c.attention, rng), which PyTorch's generator draws.
"""

from typing import Optional, Tuple, Union

import torch
import torch.nn.functional as F

from .attention import attention
from .errors import not_supported
from .sequences import mask_of

__all__ = [
    "flash_attn_func", "flash_attn_kvpacked_func", "flash_attn_qkvpacked_func", "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func", "flash_attn_varlen_qkvpacked_func", "flash_attn_with_kvcache",
]
_CHANGE_NOTHING = ("num_splits", "pack_gqa", "sm_margin")
Window = Tuple[Optional[int], Optional[int]]


def flash_attn_func(
    q, k, v, dropout_p: float = 0.0, softmax_scale: Optional[float] = None, causal: bool = False, window_size: Window = (-1, -1),
    softcap: float = 0.0, alibi_slopes=None, deterministic: bool = False, return_attn_probs: bool = False, *,
    qv=None, q_descale=None, k_descale=None, v_descale=None, attention_chunk: int = 0, num_splits: int = 1, pack_gqa=None,
    sm_margin: int = 0,
):
    """out [batch, seqlen_q, heads, d_v] of q [batch, seqlen_q, heads, d], k and v [batch, seqlen_k, heads_k, d or d_v].

    causal and window_size are aligned to the last query and the last key.
    """
    _refuse(qv=qv, q_descale=q_descale, k_descale=k_descale, v_descale=v_descale, attention_chunk=attention_chunk)
    out, lse = _attention(q, k, v, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
                           dropout_p=dropout_p)
    return (out, lse, None) if return_attn_probs else out


def flash_attn_kvpacked_func(q, kv, *arguments, **options):
    """As flash_attn_func of kv [batch, seqlen_k, 2, heads_k, d]."""
    _check_packed("kv", kv, 2, 2)
    return flash_attn_func(q, kv[:, :, 0], kv[:, :, 1], *arguments, **options)


def flash_attn_qkvpacked_func(qkv, *arguments, **options):
    """As flash_attn_func of qkv [batch, seqlen, 3, heads, d]."""
    _check_packed("qkv", qkv, 2, 3)
    return flash_attn_func(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], *arguments, **options)


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q: int, max_seqlen_k: int, dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None, causal: bool = False, window_size: Window = (-1, -1), softcap: float = 0.0,
    alibi_slopes=None, deterministic: bool = False, return_attn_probs: bool = False, block_table=None, *,
    seqused_q=None, seqused_k=None, **options,
):
    """out [total_q, heads, d_v] of q [total_q, heads, d], k and v [total_k, heads_k, d or d_v].

    That all have one length follows from the sums, total = sequences * max_seqlen, so that nothing is read from the GPU. Else the whole is
    computed as one sequence, of which other sequences' keys are hidden: total_q * total_k pairs, half of them where causal and cu_seqlens_q
    is cu_seqlens_k.
    """
    _refuse(block_table=block_table, seqused_q=seqused_q, seqused_k=seqused_k)
    batch = len(cu_seqlens_q) - 1
    if len(cu_seqlens_k) - 1 != batch:
        raise ValueError(f"cu_seqlens_k: {len(cu_seqlens_k) - 1} sequences; cu_seqlens_q has {batch}: they must be equal")
    if q.shape[0] != batch * max_seqlen_q or k.shape[0] != batch * max_seqlen_k:
        _refuse(alibi_slopes=alibi_slopes, **{name: x for name, x in options.items() if name not in _CHANGE_NOTHING})
        out, lse = _of_sequences(q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal, window_size, softcap, deterministic,
                                dropout_p)
        return (out, lse, None) if return_attn_probs else out
    q, k, v = (x.unflatten(0, (batch, length)) for x, length in ((q, max_seqlen_q), (k, max_seqlen_k), (v, max_seqlen_k)))
    result = flash_attn_func(q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic,
                             return_attn_probs, **options)
    if not return_attn_probs:
        return result.flatten(0, 1)
    out, lse, none = result
    return out.flatten(0, 1), lse.transpose(0, 1).flatten(1, 2), none  # lse is [heads, total_q]


def flash_attn_varlen_kvpacked_func(q, kv, *arguments, **options):
    """As flash_attn_varlen_func of kv [total_k, 2, heads_k, d]."""
    _check_packed("kv", kv, 1, 2)
    return flash_attn_varlen_func(q, kv[:, 0], kv[:, 1], *arguments, **options)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen: int, *arguments, **options):
    """As flash_attn_varlen_func of qkv [total, 3, heads, d]."""
    _check_packed("qkv", qkv, 1, 3)
    return flash_attn_varlen_func(qkv[:, 0], qkv[:, 1], qkv[:, 2], cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *arguments,
                                  **options)


def flash_attn_with_kvcache(
    q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, cache_seqlens: Union[int, torch.Tensor, None] = None,
    cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale: Optional[float] = None, causal: bool = False,
    window_size: Window = (-1, -1), softcap: float = 0.0, rotary_interleaved: bool = True, alibi_slopes=None,
    num_splits: int = 0, return_softmax_lse: bool = False, *,
    qv=None, q_descale=None, k_descale=None, v_descale=None, page_table=None, cu_seqlens_q=None, cu_seqlens_k_new=None,
    max_seqlen_q=None, rotary_seqlens=None, attention_chunk: int = 0, scheduler_metadata=None, pack_gqa=None, sm_margin: int = 0,
):
    """out [batch, seqlen_q, heads, d] of q and the first cache_seqlens keys and values of a cache, an int for all or int32 [batch].

    k and v, where they are given, are first written to the cache behind these, and count. With a tensor of lengths, which the host does not
    look at, the whole cache is computed, and what lies behind each sequence is hidden.
    """
    _refuse(rotary_cos=rotary_cos, rotary_sin=rotary_sin, cache_batch_idx=cache_batch_idx, cache_leftpad=cache_leftpad,
            block_table=block_table, qv=qv, q_descale=q_descale, k_descale=k_descale,
            v_descale=v_descale, page_table=page_table, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k_new=cu_seqlens_k_new,
            rotary_seqlens=rotary_seqlens, attention_chunk=attention_chunk)
    if isinstance(cache_seqlens, torch.Tensor) and cache_seqlens.dim():
        with torch.no_grad():
            out, lse = _of_lengths(q, k_cache, v_cache, k, v, cache_seqlens, softmax_scale, causal, window_size, softcap, alibi_slopes)
        return (out, lse) if return_softmax_lse else out
    used = _cache_length(cache_seqlens, k_cache, k)
    if k is not None:
        end = used + k.shape[1]
        if end > k_cache.shape[1]:
            raise ValueError(f"k: {k.shape[1]} keys behind {used} do not fit the cache, which has {k_cache.shape[1]}")
        k_cache[:, used:end].copy_(k)
        v_cache[:, used:end].copy_(v)
        used = end
    with torch.no_grad():
        out, lse = _attention(q, k_cache[:, :used], v_cache[:, :used], softmax_scale, causal, window_size, softcap, alibi_slopes, False)
    return (out, lse) if return_softmax_lse else out


def _of_lengths(q, k_cache, v_cache, k, v, lengths, scale, causal, window, softcap, alibi_slopes):
    """(out, lse) where each sequence has a length of its own."""
    _refuse(alibi_slopes=alibi_slopes)
    batch = q.shape[0]
    if lengths.shape != (batch,) or lengths.dtype != torch.int32 or lengths.device != q.device:
        raise ValueError(f"cache_seqlens: got {lengths.dtype} {tuple(lengths.shape)} on {lengths.device}; expected torch.int32 ({batch},) on {q.device}")
    if k is not None:
        rows = torch.arange(batch, device=q.device)[:, None]
        places = lengths[:, None].long() + torch.arange(k.shape[1], device=q.device)
        k_cache[rows, places], v_cache[rows, places] = k, v
        lengths = lengths + k.shape[1]
    first = lengths - q.shape[1]  # the place of the first query
    left, right = (-1 if side is None else side for side in window)
    right = 0 if causal else right

    def visible(b, h, q_idx, kv_idx):
        distance = first[b] + q_idx - kv_idx
        seen = kv_idx < lengths[b]
        seen = seen & (distance <= left) if left >= 0 else seen
        return seen & (distance >= -right) if right >= 0 else seen

    return _attention(q, k_cache, v_cache, scale, False, (-1, -1), softcap, None, False, visible)


def _refuse(**given):
    for name, value in given.items():
        if value is None or isinstance(value, (int, float)) and value == 0:
            continue
        raise not_supported(name, value)


def _attention(q, k, v, scale, causal, window, softcap, alibi_slopes, deterministic, mask_mod=None, dropout_p=0.0):
    width, width_v = q.shape[-1], v.shape[-1]
    if width % 8 or width_v % 8:
        scale = width ** -0.5 if scale is None else scale
        q, k, v = (F.pad(x, (0, -x.shape[-1] % 8)) for x in (q, k, v))
    out, lse = attention(q, k, v, causal=causal, scale=scale, window=window, softcap=softcap, alibi_slopes=alibi_slopes,
                         mask_mod=mask_mod, dropout_p=dropout_p, deterministic=deterministic, return_lse=True, layout="bshd")
    return out[..., :width_v] if width_v % 8 else out, lse


def _check_packed(name, x, dim, parts):
    if x.dim() != dim + 3 or x.shape[dim] != parts:
        raise ValueError(f"{name}: the shape is {tuple(x.shape)}; expected {dim + 3} dimensions, of which {dim} has extent {parts}")


def _of_sequences(q, k, v, starts_q, starts_k, scale, causal, window, softcap, deterministic, dropout_p):
    """(out, lse [heads, total_q])"""
    for name, starts in (("cu_seqlens_q", starts_q), ("cu_seqlens_k", starts_k)):
        if starts.dtype != torch.int32 or starts.device != q.device:
            raise ValueError(f"{name}: got {starts.dtype} on {starts.device}; expected torch.int32 on {q.device}")
    causal, mask_mod = mask_of(starts_q, starts_k, q.shape[0], k.shape[0], causal, window)
    out, lse = _attention(*(x[None] for x in (q, k, v)), scale, causal, (-1, -1), softcap, None, deterministic, mask_mod,
                           dropout_p)
    return out[0], lse[0]


def _cache_length(cache_seqlens, k_cache, k):
    if isinstance(cache_seqlens, torch.Tensor):
        if cache_seqlens.is_cuda:
            raise not_supported("cache_seqlens", cache_seqlens, "an int is, for all sequences, or a tensor of each one's length")
        cache_seqlens = int(cache_seqlens)
    if cache_seqlens is None:
        return 0 if k is not None else k_cache.shape[1]
    if not 0 <= cache_seqlens <= k_cache.shape[1]:
        raise ValueError(f"cache_seqlens is {cache_seqlens}; the cache has {k_cache.shape[1]} keys")
    return cache_seqlens
