"""fa2c.attention's options that are programs of scores: window, softcap, bias, alibi_slopes. What they are given by is an operand of the
launch, so that no value of theirs compiles anything."""

import math
from typing import Any, NamedTuple, Tuple

from .functions import FUNCTIONS, absolute, tanh, where
from .values import Traced


class NamedOptions(NamedTuple):
    kinds: Tuple[Tuple[str, str], ...]  # names and types of operands
    values: Tuple[Any, ...]


def place(builder, name):
    """One of b, h, q_idx and kv_idx."""
    return Traced(builder, "i32", builder.argument(name))


def of_options(builder, score, causal, kinds):
    """The score, capped first, then biased; hidden outside of a window."""
    types = dict(kinds)
    names = {name: builder.operand(name, type) for name, type in kinds}
    scalar = {name: Traced(builder, types[name], names[name]) for name in names if types[name] in ("f32", "i32")}
    b, h, q, kv = (place(builder, name) for name in ("b", "h", "q_idx", "kv_idx"))
    if "softcap" in scalar:
        score = scalar["softcap"] * tanh(score / scalar["softcap"])
    if "bias" in types:
        score = score + Traced(builder, "f32", builder.read("bias", [x.name for x in (b, h, q, kv)]))
    if "offset" not in scalar:
        return score
    distance = q + scalar["offset"] - kv  # of the last query and the last key: 0
    if "slopes" in types:
        places = (b, h) if types["slopes"].count("?") == 2 else (h,)
        slope = Traced(builder, "f32", builder.read("slopes", [x.name for x in places]))
        score = score - slope * (distance if causal is True else absolute(distance))
    visible = True
    if "window_left" in scalar:
        visible = distance <= scalar["window_left"]
    if "window_right" in scalar:
        visible = FUNCTIONS["&"](visible, -distance <= scalar["window_right"])
    return score if visible is True else where(visible, score, -math.inf)
