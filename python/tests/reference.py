"""Attention in float64 and its gradients, by NumPy, and the rule that results are held to."""

import numpy as np

UNIT = {"float16": 2.0 ** -11, "bfloat16": 2.0 ** -8}  # half of a unit in the last place of 1, rounded up for bf16


def scores(q, k, scale=None):
    """[b, h, sq, sk] of q [b, h, sq, d] and k [b, h_kv, sk, d]."""
    k = np.repeat(k, q.shape[1] // max(k.shape[1], 1), axis=1)
    return np.einsum("bhid,bhjd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)


def visible(sq, sk, mask):
    i, j = np.arange(sq)[:, None], np.arange(sk)[None, :]
    return {False: i >= -1, True: j <= i + sk - sq, "top_left": j <= i}[mask] & (j >= 0)


def softmax(x):
    """(P, lse); a row that sees nothing has zeros and -inf."""
    m = x.max(axis=-1, keepdims=True, initial=-np.inf)
    p = np.exp(x - np.where(np.isfinite(m), m, 0))
    total = p.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.where(np.isfinite(m), m, 0) + np.log(total)
    return p / np.where(total > 0, total, 1), lse[..., 0]


def philox(counter, key):
    """Philox4x32-7 of four words, arrays of uint64, and two."""
    low = np.uint64(0xFFFFFFFF)
    for _ in range(7):
        a, b = counter[0] * np.uint64(0xD2511F53), counter[2] * np.uint64(0xCD9E8D57)
        counter = (b >> np.uint64(32)) ^ counter[1] ^ key[0], b & low, (a >> np.uint64(32)) ^ counter[3] ^ key[1], a & low
        key = (key[0] + np.uint64(0x9E3779B9)) & low, (key[1] + np.uint64(0xBB67AE85)) & low
    return counter


def kept(seed, offset, p, batch, heads, sq, sk):
    """[batch, heads, sq, sk]: 0 where dropout drops an element, else 1 / (1 - p) of the p that counts; docs/contract.md."""
    threshold = int(p * 256 + 0.5)
    words = [np.uint64(x >> shift & 0xFFFFFFFF) for x in (seed, offset) for shift in (0, 32)]
    bh, i, j = (np.asarray(x, np.uint64) for x in np.ogrid[:batch * heads, :sq, :sk])
    unit = lambda x: x // np.uint64(32) * np.uint64(8) + x % np.uint64(8)  # noqa: E731
    numbers = philox(np.broadcast_arrays(unit(i), unit(j), bh, words[2]), (words[0], words[1] ^ words[3]))
    word = np.choose(np.broadcast_to(i % np.uint64(32) // np.uint64(8), numbers[0].shape).astype(int), numbers)
    byte = word >> j % np.uint64(32) // np.uint64(8) * np.uint64(8) & np.uint64(255)
    return np.where(byte >= threshold, 256 / (256 - threshold), 0).reshape(batch, heads, sq, sk)


def attention(q, k, v, mask=False, scale=None, change=None):
    """(out, lse) in float64; `change` maps scores [b, h, sq, sk] to others."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    x = scores(q, k, scale)
    if change is not None:
        x = change(x)
    p, lse = softmax(np.where(visible(x.shape[2], x.shape[3], mask), x, -np.inf))
    return p @ np.repeat(v, q.shape[1] // max(v.shape[1], 1), axis=1), lse


def gradients(q, k, v, out, dout, mask=False, scale=None):
    """(dq, dk, dv) in float64, with delta of the rounded out, as docs/contract.md defines them."""
    q, k, v, out, dout = (np.asarray(x, np.float64) for x in (q, k, v, out, dout))
    group = q.shape[1] // k.shape[1]
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    wide_k, wide_v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    x = scores(q, k, scale)
    p, _ = softmax(np.where(visible(x.shape[2], x.shape[3], mask), x, -np.inf))
    dp = dout @ wide_v.swapaxes(-1, -2)
    ds = p * (dp - (out * dout).sum(axis=-1, keepdims=True)) * factor
    summed = lambda g: g.reshape(k.shape[0], k.shape[1], group, *g.shape[2:]).sum(axis=2)  # noqa: E731
    return ds @ wide_k, summed(ds.swapaxes(-1, -2) @ q), summed(p.swapaxes(-1, -2) @ dout)


def excess(got, wanted, unit):
    """The largest error of a row over what a row may have: some roundings of its largest value and of the median's."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    if got.size == 0:
        return 0.0
    if not np.isfinite(got).all():
        return np.inf
    largest = np.abs(wanted).max(axis=-1)
    typical = np.median(largest[largest > 0]) if largest.any() else 0
    allowed = 6 * unit * np.maximum(largest, typical) + 1e-7
    return float((np.abs(got - wanted).max(axis=-1) / allowed).max())
