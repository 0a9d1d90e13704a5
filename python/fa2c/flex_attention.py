"""torch.nn.attention.flex_attention's functions, by fa2c.

    from fa2c.flex_attention import create_block_mask, flex_attention

A BlockMask of PyTorch's is taken too: its mask_mod is what counts, its blocks are not looked at. Gradients are
those of fa2c.attention; what cannot be traced is refused with its line (fa2c.tracing).
"""

from dataclasses import dataclass
from typing import Callable, Optional

from .attention import attention
from .errors import not_supported

__all__ = ["BlockMask", "create_block_mask", "flex_attention"]


@dataclass(frozen=True)
class BlockMask:
    """A mask by its function; lengths are those of each call."""

    mask_mod: Callable


def create_block_mask(mask_mod: Callable, B=None, H=None, Q_LEN=None, KV_LEN=None, device=None, BLOCK_SIZE=128,
                      _compile: bool = False) -> BlockMask:
    """No block is computed, and no length is kept: every other argument but the function is there for FlexAttention's sake."""
    return BlockMask(mask_mod)


def flex_attention(query, key, value, score_mod: Optional[Callable] = None, block_mask=None, scale: Optional[float] = None,
                   enable_gqa: bool = False, return_lse: bool = False, kernel_options=None, *, return_aux=None):
    """out, (out, lse), or with return_aux (out, AuxOutput), of query [batch, heads, seqlen_q, d], key and value [batch, heads_kv, seqlen_k, d or d_v].

    kernel_options choose how FlexAttention computes, not what: any are taken. lse has natural logarithms.
    """
    if getattr(return_aux, "max_scores", False):
        raise not_supported("return_aux", return_aux, "its lse is")
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(
            f"key: the number of heads is {key.shape[1]}, that of query is {query.shape[1]}: they must be equal unless enable_gqa"
        )
    mask_mod = None
    if block_mask is not None:
        mask_mod = getattr(block_mask, "mask_mod", None)
        if mask_mod is None:
            raise TypeError(f"block_mask: got {type(block_mask).__name__}; expected what create_block_mask makes")
    wants_lse = return_lse or bool(getattr(return_aux, "lse", False))
    result = attention(query, key, value, score_mod=score_mod, mask_mod=mask_mod, scale=scale, return_lse=wants_lse)
    if return_aux is None:
        return result
    from torch.nn.attention.flex_attention import AuxOutput

    return (result[0], AuxOutput(lse=result[1])) if wants_lse else (result, AuxOutput())
