"""fa2c as an attention of Hugging Face's transformers (5 and later).

    from fa2c.integrations import transformers as fa2c_transformers
    fa2c_transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="fa2c", dtype=torch.bfloat16)

Both interfaces are registered: without the second, transformers would build no mask and say nothing. Causal and bidirectional
masks are the kernels'; padding and others, such as sliding windows, chunks and packed sequences, are traced to programs, which are
computed in every tile. Dropout and position biases are refused by name.
"""

from typing import Callable, NamedTuple, Optional

import torch

from ..attention import attention as fa2c_attention
from ..errors import not_supported
from ..tracing import ScoreProgram, program

NAME = "fa2c"


def register() -> None:
    """Makes attn_implementation="fa2c" known."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, mask)


class Mask(NamedTuple):
    """What mask() makes for attention()."""

    causal: bool
    mask_mod: Callable
    program: ScoreProgram  # the same, traced


def attention(module, query, key, value, attention_mask=None, dropout: float = 0.0, scaling: Optional[float] = None,
              is_causal: Optional[bool] = None, sliding_window: Optional[int] = None, **options):
    """(out [batch, seqlen, heads, d], None) of query [batch, heads, seqlen, d] and what mask() gave."""
    _refuse(position_bias=options.get("position_bias"), cache=options.get("cache"))
    softcap, sinks = options.get("softcap"), options.get("s_aux")
    if attention_mask is None:
        causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
        # So many keys are seen, the query's own with them.
        window = None if sliding_window is None else (sliding_window - 1, -1 if causal else sliding_window - 1)
        out = fa2c_attention(query, key, value, causal=causal, scale=scaling, window=window, softcap=softcap, sinks=sinks,
                             dropout_p=dropout)
    elif not isinstance(attention_mask, Mask):
        raise not_supported("attention_mask", attention_mask, "fa2c's mask interface makes masks: register() registers it")
    elif softcap:
        out = fa2c_attention(query, key, value, causal=attention_mask.causal, scale=scaling, softcap=softcap, sinks=sinks,
                             mask_mod=attention_mask.mask_mod, dropout_p=dropout)
    else:
        out = fa2c_attention(query, key, value, causal=attention_mask.causal, scale=scaling, sinks=sinks,
                             score_mod=attention_mask.program, dropout_p=dropout)
    return out.transpose(1, 2).contiguous(), None


def mask(batch_size: int, q_length: int, kv_length: int, q_offset: int = 0, kv_offset: int = 0, mask_function=None,
         attention_mask: Optional[torch.Tensor] = None, **options) -> Optional[Mask]:
    """None where the module's is_causal says it all."""
    from transformers.masking_utils import bidirectional_mask_function, causal_mask_function

    mask_function = mask_function or causal_mask_function
    if attention_mask is not None:
        attention_mask = attention_mask[:, kv_offset:kv_offset + kv_length]
        if attention_mask.shape[1] < kv_length:  # a cache of a fixed length, whose end is not written yet
            attention_mask = torch.nn.functional.pad(attention_mask, (0, kv_length - attention_mask.shape[1]))
        if attention_mask.all():
            attention_mask = None
    # The kernels' causal mask is aligned to the last key.
    aligned = mask_function is causal_mask_function and int(q_offset) + q_length == kv_length + kv_offset
    known = aligned or mask_function is bidirectional_mask_function
    if known and attention_mask is None:
        return None
    device = options.get("device", "cpu") if attention_mask is None else attention_mask.device
    mask_mod = _mask_mod(None if known else mask_function, int(q_offset), int(kv_offset), attention_mask, device)
    return Mask(aligned, mask_mod, program(mask_mod=mask_mod))


def _mask_mod(function, q_offset, kv_offset, seen, device):
    """Of a function of places in the whole sequence, if there is one, and of the keys that are no padding."""
    if q_offset or kv_offset:
        # As tensors they are read by the launch; as numbers each place of a cache would be a kernel.
        offsets = torch.tensor([q_offset, kv_offset], dtype=torch.int32, device=device)

        def visible(b, h, q_idx, kv_idx):
            return function(b, h, q_idx + offsets[0], kv_idx + offsets[1])
    else:
        visible = function
    if seen is None:
        return visible
    if function is None:
        return lambda b, h, q_idx, kv_idx: seen[b, kv_idx]
    return lambda b, h, q_idx, kv_idx: visible(b, h, q_idx, kv_idx) & seen[b, kv_idx]


def _refuse(**given):
    for name, value in given.items():
        if value is not None and not (isinstance(value, float) and value == 0):
            raise not_supported(name, value)
