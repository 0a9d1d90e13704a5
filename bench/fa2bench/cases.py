"""What is measured: the cases of the FlashAttention-2 paper's grid."""

from dataclasses import dataclass

MASKS = ("none", "causal", "causal_top_left")
DTYPES = ("bf16", "f16")


class Refused(Exception):
    """Bad input: the text names the field, its value and the limit."""


@dataclass(frozen=True, order=True)
class Case:
    """One forward problem. seqlen_q = seqlen_k, head_dim_v = head_dim."""

    head_dim: int
    mask: str
    seqlen: int
    batch: int
    heads: int
    dtype: str

    @property
    def flops(self):
        """4 N^2 d heads batch, halved under a causal mask (the paper's count)."""
        full = 4 * self.seqlen**2 * self.head_dim * self.heads * self.batch
        return full / (1 if self.mask == "none" else 2)

    def __str__(self):
        return (f"head dim {self.head_dim}, mask {self.mask}, seqlen {self.seqlen}, "
                f"batch {self.batch}, heads {self.heads}, {self.dtype}")


def make_case(head_dim, mask, seqlen, heads, tokens, dtype):
    """batch * seqlen = tokens."""
    if tokens % seqlen:
        raise Refused(f"seqlen is {seqlen}; it must divide --tokens {tokens}, "
                      f"such as {nearest_divisor(tokens, seqlen)}")
    return Case(head_dim, mask, seqlen, tokens // seqlen, heads, dtype)


def nearest_divisor(total, value):
    divisors = [d for d in range(1, total + 1) if total % d == 0]
    return min(divisors, key=lambda d: abs(d - value))


def paper_grid(head_dims, masks, seqlens, hidden, tokens, dtype):
    """heads = hidden / head dim, in the order in which a table shows the cases."""
    cases = []
    for head_dim in head_dims:
        if hidden % head_dim:
            raise Refused(f"head dim is {head_dim}; it must divide --hidden {hidden} "
                          "(other head dims: --dims)")
        for mask in masks:
            for seqlen in seqlens:
                cases.append(make_case(head_dim, mask, seqlen, hidden // head_dim, tokens, dtype))
    return cases
