"""Sequences of several lengths as one, of which the keys of other sequences are hidden."""

import weakref

import torch

_latest = None  # what _places made, and of what: layers repeat theirs


def mask_of(starts_q, starts_k, total_q, total_k, causal, window):
    """(fa2c.attention's `causal`, mask_mod) of sequences that begin at such tokens, int32 [sequences + 1]; nothing is read from the GPU."""
    sequence_q, place_q, sequence_k, place_k = _places(starts_q, starts_k, total_q, total_k)
    left, right = (-1 if side is None else side for side in window)
    right = 0 if causal else right
    if right == 0 and starts_q is starts_k and total_q == total_k:
        causal, right = True, -1  # that of the whole hides no more, in tiles that are not computed
    else:
        causal = False

    def visible(b, h, q_idx, kv_idx):
        seen = sequence_q[q_idx] == sequence_k[kv_idx]
        distance = place_q[q_idx] - place_k[kv_idx]
        seen = seen & (distance <= left) if left >= 0 else seen
        return seen & (distance >= -right) if right >= 0 else seen

    return causal, visible


def _places(starts_q, starts_k, total_q, total_k):
    """The sequence of each query and key, and their places in there, of which equal ones are those of the last query and the last key."""
    global _latest
    latest, starts = _latest, (starts_q, starts_k)
    if latest is not None and latest[1] == (total_q, total_k) and all(
            known() is x and version == x._version for (known, version), x in zip(latest[2], starts)):
        return latest[0]
    sequence_q, place_q = _of_tokens(starts_q, total_q)
    sequence_k, place_k = _of_tokens(starts_k, total_k)
    if starts_q is not starts_k:
        more = starts_k.diff() - starts_q.diff()
        # Tokens behind the last sequence are in one of their own.
        place_q = place_q + torch.nn.functional.pad(more, (0, 1))[sequence_q]
    result = sequence_q, place_q, sequence_k, place_k
    _latest = result, (total_q, total_k), [(weakref.ref(x), x._version) for x in starts]
    return result


def _of_tokens(starts, total):
    tokens = torch.arange(total, dtype=torch.int32, device=starts.device)
    sequence = torch.searchsorted(starts[1:].contiguous(), tokens, right=True, out_int32=True)
    return sequence, tokens - starts[sequence]
