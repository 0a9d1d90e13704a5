"""What q, k and v may be: checks that name the tensor, its value and the nearest that is supported."""

from typing import Sequence

LAYOUTS = {"bhsd": True, "bshd": False}  # whether heads stand before the sequence


def heads_first(layout: str) -> bool:
    if layout not in LAYOUTS:
        raise ValueError(f"layout is {layout!r}; expected 'bhsd' (batch, heads, seqlen, head dim) or 'bshd'")
    return LAYOUTS[layout]


def mask_of(causal) -> str:
    """The compiler's name of a mask."""
    if causal is True or causal is False or causal in (0, 1):
        return "causal" if causal else "none"
    if causal == "top_left":
        return "causal_top_left"
    raise ValueError(f"causal is {causal!r}; expected True (the last query sees the last key), False, or 'top_left'")


def check_head_dim(name: str, width: int) -> None:
    if 8 <= width <= 256 and width % 8 == 0:
        return
    if not 0 < width <= 256:
        raise ValueError(f"{name}: the head dim is {width}; expected a multiple of 8 from 8 to 256")
    raise ValueError(
        f"{name}: the head dim is {width}; expected a multiple of 8 from 8 to 256: pad with zeros to {-(-width // 8) * 8} "
        "(and give scale, which follows from the head dim)"
    )


def check_shapes(q: Sequence[int], k: Sequence[int], v: Sequence[int], heads_first: bool) -> None:
    """Raises ValueError unless the three shapes are those of one attention."""
    order = "[batch, heads, seqlen, head dim]" if heads_first else "[batch, seqlen, heads, head dim]"
    for name, shape in (("q", q), ("k", k), ("v", v)):
        if len(shape) != 4:
            raise ValueError(f"{name}: the shape is {tuple(shape)}; expected 4 dimensions, {order}")
    seqlen, heads = (2, 1) if heads_first else (1, 2)
    for name, shape in (("k", k), ("v", v)):
        if shape[0] != q[0]:
            raise ValueError(f"{name}: the batch is {shape[0]}, that of q is {q[0]}: they must be equal")
    for what, dim in (("seqlen", seqlen), ("number of heads", heads)):
        if v[dim] != k[dim]:
            raise ValueError(f"v: the {what} is {v[dim]}, that of k is {k[dim]}: they must be equal (order: {order})")
    if k[3] != q[3]:
        raise ValueError(f"k: the head dim is {k[3]}, that of q is {q[3]}: they must be equal")
    if q[heads] and (k[heads] == 0 or q[heads] % k[heads]):
        raise ValueError(
            f"q: the number of heads is {q[heads]}; expected a multiple of k's and v's, which is {k[heads]} (order: {order})"
        )
    check_head_dim("q", q[3])
    check_head_dim("v", v[3])


def check_scale(scale):
    """The scale as a float, or None."""
    if scale is None:
        return None
    value = float(scale)
    if not 0 < value < float("inf"):
        raise ValueError(f"scale is {value}; expected a positive, finite number")
    return value
