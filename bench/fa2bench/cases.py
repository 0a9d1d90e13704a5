"""What is measured: forward problems, and those of the FlashAttention-2 paper's grid."""

from dataclasses import dataclass, fields

MASKS = ("none", "causal", "causal_top_left", "strictly_causal")
DTYPES = ("bf16", "f16")
LAYOUTS = ("bhsd", "bshd")
FEW_ROWS = 128  # query rows a key head: with no more of them, bytes bound a kernel rather than products
FEW_QUERIES = 1 / 16  # of the keys: a causal mask then hides at most half as large a part of the pairs


class Refused(Exception):
    """Bad input: the text names the field, its value and the limit."""


def _triangle(rows, most):
    """The sum of min(row, most) over the rows 1 to `rows`."""
    inside = max(0, min(rows, most))
    return inside * (inside + 1) // 2 + max(0, rows - most) * most


@dataclass(frozen=True, order=True)
class Case:
    """One forward problem. What is 0 is as in q: seqlen_k = seqlen, heads_kv = heads, head_dim_v = head_dim."""

    head_dim: int
    mask: str
    seqlen: int  # of queries
    batch: int
    heads: int
    dtype: str
    heads_kv: int = 0
    seqlen_k: int = 0
    head_dim_v: int = 0
    layout: str = "bhsd"  # the tensors' order in memory, innermost last
    values: str = "normal"  # of fa2bench/values.py

    def __post_init__(self):
        for name, same in (("heads_kv", "heads"), ("seqlen_k", "seqlen"), ("head_dim_v", "head_dim")):
            if not getattr(self, name):
                object.__setattr__(self, name, getattr(self, same))

    @property
    def key(self):
        """What a kernel is looked up by."""
        return self.head_dim, self.head_dim_v, self.mask, self.dtype

    @property
    def pairs(self):
        """Of a query and a key that it sees, in one head; half of all where a causal problem is square, as the paper
        counts."""
        n, m = self.seqlen, self.seqlen_k
        if self.mask == "none":
            return n * m
        if n == m:
            return n * m / 2
        shift = {"causal": m - n, "causal_top_left": 0, "strictly_causal": m - n - 1}[self.mask]
        return _triangle(n + shift, m) - _triangle(shift, m)

    @property
    def flops(self):
        """4 N^2 d heads batch where all is square and seen."""
        return 2 * self.pairs * (self.head_dim + self.head_dim_v) * self.heads * self.batch

    @property
    def backward_flops(self):
        """Of five products: 10 N^2 d heads batch where all is square and seen."""
        return 2 * self.pairs * (3 * self.head_dim + 2 * self.head_dim_v) * self.heads * self.batch

    @property
    def bytes(self):
        """q, k, v and out once."""
        queries, keys = self.heads * self.seqlen, self.heads_kv * self.seqlen_k
        return 2 * self.batch * (queries + keys) * (self.head_dim + self.head_dim_v)

    @property
    def bound_by_bytes(self):
        return self.seqlen * self.heads // self.heads_kv <= FEW_ROWS

    @property
    def few_queries(self):
        return self.seqlen <= self.seqlen_k * FEW_QUERIES

    def __str__(self):
        def two(a, b):
            return str(a) if a == b else f"{a}/{b}"
        text = (f"head dim {two(self.head_dim, self.head_dim_v)}, mask {self.mask}, "
                f"seqlen {two(self.seqlen, self.seqlen_k)}, batch {self.batch}, "
                f"heads {two(self.heads, self.heads_kv)}, {self.dtype}")
        if self.layout != "bhsd":
            text += f", {self.layout}"
        return text if self.values == "normal" else f"{text}, values {self.values}"


CASE_FIELDS = tuple(f.name for f in fields(Case))


def case_of(record):
    """The Case of anything that has its fields."""
    return Case(*(getattr(record, name) for name in CASE_FIELDS))


def key_text(key):
    head_dim, head_dim_v, mask, dtype = key
    return f"head dim {head_dim}{'' if head_dim == head_dim_v else f'/{head_dim_v}'} {mask} {dtype}"


def make_case(head_dim, mask, seqlen, heads, tokens, dtype, **more):
    """batch * seqlen = tokens."""
    if tokens % seqlen:
        raise Refused(f"seqlen is {seqlen}; it must divide --tokens {tokens}, "
                      f"such as {nearest_divisor(tokens, seqlen)}")
    return Case(head_dim, mask, seqlen, tokens // seqlen, heads, dtype, **more)


def nearest_divisor(total, value):
    divisors = [d for d in range(1, total + 1) if total % d == 0]
    return min(divisors, key=lambda d: abs(d - value))


def paper_grid(head_dims, masks, seqlens, hidden, tokens, dtype, **more):
    """heads = hidden / head dim, in the order in which a table shows the cases."""
    cases = []
    for head_dim in head_dims:
        if hidden % head_dim:
            raise Refused(f"head dim is {head_dim}; it must divide --hidden {hidden} "
                          "(other head dims: --dims)")
        for mask in masks:
            for seqlen in seqlens:
                cases.append(make_case(head_dim, mask, seqlen, hidden // head_dim, tokens, dtype, **more))
    return cases
