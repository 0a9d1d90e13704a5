"""Whether a result is right: the accuracy rule against a float64 reference.

Each row of out: max |out - ref| <= 2 max(e_row, e_median) + 2 ulp(max |ref|), where e is the
error of standard attention in the input dtype; |lse - ref| <= 1e-5 (1 + |ref|). A row that sees
no key is 0 and -inf.
"""

import math

import torch

MANTISSA = {torch.bfloat16: 7, torch.float16: 10}
LEAST_EXPONENT = {torch.bfloat16: -126, torch.float16: -14}


class WrongResult(Exception):
    """A kernel computed something else than attention."""


def ulp(dtype, value):
    exponent = torch.frexp(value)[1] - 1  # floor(log2 value)
    exponent = torch.where(value > 0, exponent, LEAST_EXPONENT[dtype])
    exponent = exponent.clamp(min=LEAST_EXPONENT[dtype]) - MANTISSA[dtype]
    return torch.ldexp(torch.ones_like(value), exponent)


def visible(mask, rows, seqlen_q, seqlen_k):
    """Keys that each row sees: the first that many."""
    if mask == "none":
        return torch.full_like(rows, seqlen_k)
    shift = {"causal": seqlen_k - seqlen_q, "causal_top_left": 0, "strictly_causal": seqlen_k - seqlen_q - 1}[mask]
    return (rows + 1 + shift).clamp(0, seqlen_k)


class HeadReference:
    """out and lse of one head in float64, and the errors of standard attention beside them.

    q: [seqlen_q, d], k: [seqlen_k, d], v: [seqlen_k, d_v], of the input dtype, on any device. `rows`: the rows
    of q that are looked at, in order (default: all).
    """

    def __init__(self, q, k, v, mask, scale, rows_at_once=2048, rows=None):
        self.dtype, self.scale = q.dtype, scale
        seqlen_q, seqlen_k = q.shape[0], k.shape[0]
        self.rows = torch.arange(seqlen_q, device=q.device) if rows is None else rows
        outs, lses, errors = [], [], []
        columns = torch.arange(seqlen_k, device=q.device)
        for rows in self.rows.split(rows_at_once):
            seen = visible(mask, rows, seqlen_q, seqlen_k)
            hidden = columns[None, :] >= seen[:, None]
            block = q[rows]
            scores = (block.double() @ k.double().T).mul_(scale).masked_fill_(hidden, -math.inf)
            lse = torch.logsumexp(scores, 1)
            weights = torch.exp(scores - lse[:, None]).masked_fill_(hidden, 0)
            out = weights @ v.double()
            del scores, weights
            standard = (block @ k.T).float().mul_(scale).masked_fill_(hidden, -math.inf)
            standard = torch.softmax(standard, 1).masked_fill_(hidden, 0).to(q.dtype) @ v
            outs.append(out)
            lses.append(lse)
            errors.append((standard.double() - out).abs().amax(1))
        self.out, self.lse = torch.cat(outs), torch.cat(lses)
        self.empty = torch.isneginf(self.lse)
        self.standard_error = torch.cat(errors)
        full = self.standard_error[~self.empty]
        median = full.median() if full.numel() else torch.zeros((), dtype=torch.float64)
        largest = self.out.abs().amax(1)
        self.allowed = (2 * torch.maximum(self.standard_error, median.to(largest.device))
                        + 2 * ulp(self.dtype, largest))

    def judge(self, out, lse, where=""):
        """Raises WrongResult; else the worst row's share of what it is allowed. out, lse: of the whole head."""
        out = out[self.rows]
        error = (out.double() - self.out).abs().amax(1)
        share = torch.where(error == 0, torch.zeros_like(error), error / self.allowed)
        share = torch.where(self.empty, torch.where(error == 0, 0.0, math.inf), share)
        share = share.nan_to_num(math.inf, posinf=math.inf)
        worst = int(share.argmax())
        if not share[worst] <= 1:
            raise WrongResult(
                f"{where}row {int(self.rows[worst])}: error {float(error[worst]):.3g} exceeds the allowed "
                f"{0.0 if self.empty[worst] else float(self.allowed[worst]):.3g} "
                f"({int((share > 1).sum())} of {len(share)} rows are wrong)")
        if lse is not None:
            lse = lse[self.rows]
            same = lse.double() == self.lse  # -inf too
            error = torch.where(same, torch.zeros_like(self.lse), (lse.double() - self.lse).abs())
            bad = ~(error <= 1e-5 * (1 + self.lse.abs()))
            bad |= self.empty & ~same
            if bad.any():
                row = int(bad.nonzero()[0])
                raise WrongResult(f"{where}row {int(self.rows[row])}: lse is {float(lse[row]):.9g}, the reference "
                                  f"{float(self.lse[row]):.9g}")
        return float(share[worst])

    def difference(self, out):
        """||out - ref|| / ||ref||, infinite where out is not a number."""
        value = float((out[self.rows].double() - self.out).norm() / self.out.norm())
        return value if math.isfinite(value) else math.inf


# Shapes that end inside of tiles, have grouped heads, and (bottom-right causal) rows without keys:
# (batch, heads, heads_kv, seqlen_q, seqlen_k, factor of q)
ODD_SHAPES = ((2, 3, 3, 113, 257, 1.0), (1, 4, 2, 257, 129, 1.0), (1, 2, 1, 1000, 1000, 6.0))


def check_odd_shapes(kernel, dtype, device, allocate, generator):
    """Runs a KernelFile on ODD_SHAPES, outputs poisoned; the worst share of what is allowed."""
    head_dim, head_dim_v, mask, _ = kernel.key
    worst = 0.0
    for batch, heads, heads_kv, seqlen_q, seqlen_k, factor in ODD_SHAPES:
        def draw(h, n, d):
            return torch.randn(batch, h, n, d, device=device, generator=generator)
        q = (draw(heads, seqlen_q, head_dim) * factor).to(dtype)
        k, v = (draw(heads_kv, seqlen_k, d).to(dtype) for d in (head_dim, head_dim_v))
        out = torch.full((batch, heads, seqlen_q, head_dim_v), math.nan, dtype=dtype, device=device)
        lse = torch.full((batch, heads, seqlen_q), math.nan, device=device)
        kernel.bind(q, k, v, out, lse, allocate)(current_stream(device))
        synchronize(device)
        has_lse = any(a["name"] == "lse" for a in kernel.manifest["arguments"])
        for b in range(batch):
            for h in range(heads):
                kv = h // (heads // heads_kv)
                reference = HeadReference(q[b, h], k[b, kv], v[b, kv], mask, 1 / math.sqrt(head_dim))
                where = (f"seqlen_q {seqlen_q}, seqlen_k {seqlen_k}, heads {heads}/{heads_kv}, "
                         f"batch entry {b}, head {h}, ")
                worst = max(worst, reference.judge(out[b, h], lse[b, h] if has_lse else None, where))
    return worst


def current_stream(device):
    return torch.cuda.current_stream().cuda_stream if device == "cuda" else None


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()
