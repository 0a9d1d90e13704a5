"""score_mod and mask_mod, FlexAttention's callables, as score programs of the compiler.

They are called once with values that record what is done to them: Python's operators, and PyTorch's functions through
__torch_function__. PyTorch need not be there.
"""

import functools
import math
import sys
import types
import weakref
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple, Optional, Tuple, Union

from .builder import Builder
from .captured import elements, watched
from .functions import where
from .options import NamedOptions, of_options, place
from .signature import NoSignature, Signature
from .values import Traced, is_number, kind_of

_MOST_KEPT = 256
_kept = {}  # programs by signature


# (causal, the region of scores or None, what it reads: tensors and numbers in the region's order), which fa2c.attention's options come to
Attention = Tuple[Union[bool, str], Optional[str], Tuple[Any, ...]]


@dataclass(frozen=True)
class ScoreProgram:
    """What score_mod and mask_mod compute, as MLIR, and the mask that mask_mod is or contains."""

    text: Optional[str]  # None: nothing but the mask
    mask: Union[bool, str]  # as fa2c.attention's `causal`
    operands: Tuple[Any, ...] = field(default=(), compare=False)  # the captured tensors that it reads

    def under(self, mask_mod: Optional[Callable], causal: Union[bool, str]) -> Attention:
        """Beside fa2c.attention's other options."""
        if mask_mod is not None:
            raise ValueError("mask_mod is given beside a program; give it to fa2c.program(score_mod, mask_mod)")
        if causal is not False and self.mask is not False and causal != self.mask:
            raise ValueError(f"causal is {causal!r}, and the program's mask is {self.mask!r}; give one of them")
        return causal or self.mask, self.text, self.operands


def program(score_mod: Optional[Callable] = None, mask_mod: Optional[Callable] = None) -> ScoreProgram:
    """Traces; fa2c.attention takes the result as its score_mod. `text` shows what was traced."""
    mask, text, operands = trace(score_mod, mask_mod, False)
    return ScoreProgram(text, mask, operands)


def trace(score_mod: Optional[Callable], mask_mod: Optional[Callable], causal: Union[bool, str],
          named: Optional[NamedOptions] = None) -> Attention:
    """Of fa2c.attention's options."""
    if named is not None:
        causal, text, operands = trace_kinds(score_mod, mask_mod, causal, named.kinds)
        return causal, text, named.values + operands
    return trace_kinds(score_mod, mask_mod, causal, ())


def trace_kinds(score_mod, mask_mod, causal, kinds) -> Attention:
    """`kinds`: names and types of operands that stand for fa2c.attention's own options, whose values are not in the result."""
    owner = mask_mod if score_mod is None else score_mod
    if owner is None:
        return _of_options_alone(causal, kinds)
    latest = _Latest.of(owner)
    if latest is not None and latest.options == (score_mod is owner, causal, kinds) and latest.mask_mod() is mask_mod and latest.signature.unchanged():
        return _not_in_dynamo(latest.result)
    try:
        signature = Signature(score_mod, mask_mod, causal, kinds)
    except NoSignature:
        return _trace(score_mod, mask_mod, causal, kinds)
    found = _kept.get(signature.key)
    if found is None:
        mask, text, operands = _trace(score_mod, mask_mod, causal, kinds)
        places = tuple(next(i for i, x in enumerate(signature.tensors) if x is tensor) for tensor in operands)
        found = _keep(_kept, signature.key, (mask, text, places))
    mask, text, places = found
    result = mask, text, tuple(signature.tensors[i] for i in places)
    _Latest.keep(owner, (score_mod is owner, causal, kinds), mask_mod, signature, result)
    return _not_in_dynamo(result)


@functools.lru_cache(maxsize=_MOST_KEPT)
def _of_options_alone(causal, kinds):
    return _trace(None, None, causal, kinds)


class _Latest(NamedTuple):
    """What a function was traced to, kept by itself, so that what it captures lives no longer."""

    owner: Callable  # weak: functools.wraps copies a function's attributes
    options: tuple
    mask_mod: Callable  # weak
    signature: Signature
    result: Attention

    @classmethod
    def of(cls, owner) -> Optional["_Latest"]:
        latest = getattr(owner, "_fa2c_latest", None)
        return latest if latest is not None and latest.owner() is owner else None

    @classmethod
    def keep(cls, owner, options, mask_mod, signature, result):
        if isinstance(owner, types.FunctionType) and isinstance(mask_mod, (types.FunctionType, type(None))):
            weak = weakref.ref(mask_mod) if mask_mod is not None else lambda: None
            owner._fa2c_latest = cls(weakref.ref(owner), options, weak, signature, result)


def _not_in_dynamo(result):
    """Where torch.compile runs this, it takes the result as a constant, which tensors are not."""
    guards = sys.modules.get("torch._guards") if result[2] else None
    if guards is not None and guards.TracingContext.try_get() is not None:
        raise NotImplementedError("score_mod: under torch.compile a function that captures tensors is traced before: give "
                                  "fa2c.program(score_mod, mask_mod), made outside of what is compiled")
    return result


def _keep(where, key, value):
    if len(where) >= _MOST_KEPT:
        where.clear()
    where[key] = value
    return value


trace_kinds._dynamo_marked_constant = True  # torch.compile runs it, and takes its result as a constant


def _trace(score_mod, mask_mod, causal, kinds):
    builder = Builder()
    score = Traced(builder, "f32", "%score")
    result = of_options(builder, score, causal, kinds)
    if score_mod is not None:
        result = _score(_call("score_mod", score_mod, builder, ("b", "h", "q_idx", "kv_idx"), result))
    if mask_mod is not None:
        visible = _call("mask_mod", mask_mod, builder, ("b", "h", "q_idx", "kv_idx"))
        causal, visible = _split_mask(builder, _mask(visible), causal)
        if visible is not True:
            result = where(visible, result, -math.inf)
    if result is score:
        return causal, None, ()
    return (causal, *builder.region(result.name))


def _call(name, function, builder, parameters, *scores):
    values = [*scores, *(place(builder, p) for p in parameters)]
    if not callable(function):
        expected = ", ".join(("score",) * len(scores) + parameters)
        raise TypeError(f"{name}: got {type(function).__name__}; expected a function of ({expected})")
    try:
        with watched(builder):
            return elements(builder, function(*values))
    except (NotImplementedError, TypeError, ValueError, IndexError, ZeroDivisionError) as error:
        raise type(error)(f"{name}: {error}") from None


def _score(result):
    if isinstance(result, Traced) and result.kind == "f32":
        return result
    what = type(result).__name__ if not isinstance(result, Traced) else result.kind
    raise TypeError(f"score_mod: the result is {what}; expected the new score, a float that depends on the score")


def _mask(result):
    if is_number(result) and kind_of(result) == "i1":
        if not result:
            raise ValueError("mask_mod: the result is False: no row would see a key")
        return True
    if isinstance(result, Traced) and result.kind == "i1":
        return _mask(result.known) if result.known is not None else result
    what = type(result).__name__ if not isinstance(result, Traced) else result.kind
    raise TypeError(f"mask_mod: the result is {what}; expected a boolean, whether the row sees the key")


def _split_mask(builder, visible, causal):
    """(causal, the rest): the terms q_idx >= kv_idx of a conjunction are a mask that kernels know."""
    if visible is True:
        return causal, True
    q, kv = builder.argument("q_idx"), builder.argument("kv_idx")
    known = {builder.emit(f"arith.cmpi sge, {q}, {kv}", "i32"), builder.emit(f"arith.cmpi sle, {kv}, {q}", "i32")}
    terms = visible.parts or (visible,)
    rest = [term for term in terms if term.name not in known]
    if len(rest) == len(terms) or causal is True:
        return causal, visible
    left = True
    for term in rest:
        left = term if left is True else left & term
    return "top_left", left


__all__ = ["ScoreProgram", "program", "trace"]
