"""fa2c as an attention of Hugging Face's transformers (5 and later).

    from fa2c.integrations import transformers as fa2c_transformers
    fa2c_transformers.register()
    model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="fa2c", dtype=torch.bfloat16)

Both interfaces are registered: without the second, transformers would build no mask and say nothing. Causal and bidirectional
masks are the kernels'; others, such as sliding windows, are traced to programs, which cannot stand behind a
cache. Padding, dropout, sinks and position biases are refused by name.
"""

from typing import Optional

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


def attention(module, query, key, value, attention_mask=None, dropout: float = 0.0, scaling: Optional[float] = None,
              is_causal: Optional[bool] = None, sliding_window: Optional[int] = None, **options):
    """(out [batch, seqlen, heads, d], None) of query [batch, heads, seqlen, d] and what mask() gave."""
    _refuse(dropout=dropout, position_bias=options.get("position_bias"),
            s_aux=options.get("s_aux"), cache=options.get("cache"))
    softcap = options.get("softcap")
    if attention_mask is None:
        causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
        # So many keys are seen, the query's own with them.
        window = None if sliding_window is None else (sliding_window - 1, -1 if causal else sliding_window - 1)
        out = fa2c_attention(query, key, value, causal=causal, scale=scaling, window=window, softcap=softcap)
    elif isinstance(attention_mask, ScoreProgram):
        if softcap:
            raise not_supported("softcap", softcap, "beside a mask that is a program; beside causal masks it is")
        out = fa2c_attention(query, key, value, score_mod=attention_mask, scale=scaling)
    else:
        raise not_supported("attention_mask", attention_mask, "fa2c's mask interface makes masks: register() registers it")
    return out.transpose(1, 2).contiguous(), None


def mask(batch_size: int, q_length: int, kv_length: int, q_offset: int = 0, kv_offset: int = 0, mask_function=None,
         attention_mask: Optional[torch.Tensor] = None, **options):
    """None where the module's is_causal says it all, else a ScoreProgram."""
    from transformers.masking_utils import bidirectional_mask_function, causal_mask_function

    if attention_mask is not None and not attention_mask[:, -kv_length:].all():
        raise not_supported("attention_mask", attention_mask, "padding is not; batch sequences of one length")
    if mask_function is bidirectional_mask_function:
        return None
    is_causal = mask_function is None or mask_function is causal_mask_function
    # The kernels' causal mask is aligned to the last key.
    if is_causal and int(q_offset) + q_length == kv_length + kv_offset:
        return None
    if int(q_offset) or kv_offset:
        raise not_supported("past_key_values", "a cache with a mask other than causal, or longer than what it holds")
    return program(mask_mod=mask_function or causal_mask_function)


def _refuse(**given):
    for name, value in given.items():
        if value is not None and not (isinstance(value, float) and value == 0):
            raise not_supported(name, value)
