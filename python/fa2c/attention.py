"""fa2c.attention: what it takes, and who computes it."""

import sys
from typing import Any, Callable, Optional, Tuple, Union

from .dropout import checked_dropout
from .named_options import checked_sinks, named_options
from .shapes import LAYOUTS, check_scale, heads_first
from .tracing import ScoreProgram, trace


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: Union[bool, str] = False,
    scale: Optional[float] = None,
    window: Optional[Tuple[int, int]] = None,
    softcap: Optional[float] = None,
    bias: Any = None,
    alibi_slopes: Any = None,
    score_mod: Union[Callable, ScoreProgram, None] = None,
    mask_mod: Optional[Callable] = None,
    dropout_p: float = 0.0,
    rng: Any = None,
    sinks: Any = None,
    deterministic: Optional[bool] = None,
    return_lse: bool = False,
    layout: str = "bhsd",
) -> Any:
    """softmax(scale q k^T) v, as docs/contract.md of fa2 defines it, by kernels that are compiled on first use.

    Shapes, with layout "bhsd" (the order of PyTorch's scaled_dot_product_attention; "bshd" is FlashAttention's, both
    may lie in memory in any order):

        q [batch, heads, seqlen_q, d]    k [batch, heads_kv, seqlen_k, d]    v [batch, heads_kv, seqlen_k, d_v]

    bfloat16 or float16; d and d_v are multiples of 8 from 8 to 256; heads is a multiple of heads_kv: query head h reads
    head h // (heads // heads_kv) of k and v.

    Returns out [batch, heads, seqlen_q, d_v] in q's type and order in memory; with return_lse also the float32
    log-sum-exp [batch, heads, seqlen_q] of the scaled scores, in natural logarithms. A row that sees no key has out 0 and
    lse -inf.

    causal         True: row i sees the keys j <= i + seqlen_k - seqlen_q; "top_left": j <= i
    scale          positive; 1 / sqrt(d) by default. A launch's argument: a new value compiles nothing
    window         (left, right): row i sees the keys i + seqlen_k - seqlen_q - left to i + seqlen_k - seqlen_q + right; -1 or
                   None is all of them
    softcap        c: scaled scores become c tanh(score / c)
    bias           added to scaled, capped scores: a tensor that expands to [batch, heads, seqlen_q, seqlen_k]
    alibi_slopes   float32 [heads] or [batch, heads]: slope |i + seqlen_k - seqlen_q - j| is taken from the score
    score_mod      FlexAttention's: (score, b, h, q_idx, kv_idx) -> score, of the scaled score behind these, or what
                   fa2c.program made; may read elements of captured tensors
    mask_mod       FlexAttention's: (b, h, q_idx, kv_idx) -> whether row q_idx sees key kv_idx; a causal mask is one of the
                   kernels' own, any other is a score_mod
    deterministic  whether gradients have the same bits in each run; None: as torch.use_deterministic_algorithms says
    sinks          float32, or 16 bits, [heads]: each row's softmax has one more score, that of its head, and no value for it; lse
                   counts it
    dropout_p      from 0 to 0.998, in steps of 1 / 256: the probability by which a row's weights are dropped, while the others are divided by
                   1 - dropout_p; lse is that of all
    rng            seed and offset of what is dropped, two 64-bit integers: int64 [2] on q's device, or a tuple. Equal ones drop the same of each head
                   and place, on every device, forward and backward; by default drawn from PyTorch's, or NumPy's, generator

    CUDA tensors of PyTorch run on the current stream; gradients go to q, k, v, bias, alibi_slopes, sinks and captured tensors,
    from out and from lse. Tensors of the CPU,
    NumPy's arrays (bfloat16: of ml_dtypes) and whatever speaks DLPack run on the simulator, forward alone but for
    PyTorch's, when they are small.

    Raises TypeError for a wrong type, ValueError for a wrong value, NotImplementedError for what is not supported yet,
    all by the argument's name; fa2c.Error where the driver fails.

    Source: FlashAttention-2 (https://arxiv.org/abs/2307.08691).
    """
    order = LAYOUTS[layout] if layout in LAYOUTS else heads_first(layout)
    named = program = None
    operands = beside = ()
    if window is not None or softcap or bias is not None or alibi_slopes is not None:
        causal, named = named_options(q, k, causal, window, softcap, bias, alibi_slopes, order)
    if isinstance(score_mod, ScoreProgram):
        if named is not None:
            raise ValueError("score_mod: a traced program beside window, softcap, bias or alibi_slopes; give its function")
        causal, program, operands = score_mod.under(mask_mod, causal)
    elif score_mod is not None or mask_mod is not None or named is not None:
        causal, program, operands = trace(score_mod, mask_mod, causal, named)
    if dropout_p:
        beside, operands = ("dropout",), (*checked_dropout(dropout_p, rng, q), *operands)
    if sinks is not None:
        beside, operands = ("sink", *beside), (checked_sinks(sinks, q, order), *operands)
    if scale is not None:
        scale = check_scale(scale)
    compute = _OF_TYPE.get(type(q)) or _find(q)
    return compute(q, k, v, causal, scale, beside, program, operands, deterministic, return_lse, order)


_OF_TYPE = {}  # from a type of q to what computes


def _find(q):
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        from .torch_attention import attention as compute
    else:
        from .array_attention import attention as compute
    _OF_TYPE[type(q)] = compute
    return compute
