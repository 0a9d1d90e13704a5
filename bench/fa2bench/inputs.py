"""The tensors of a case, and what they should give."""

import math
import random

import torch

from .check import HeadReference
from .measure import set_count
from .values import VALUES

TORCH_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


class Inputs:
    """Sets of q, k, v of a case, and what a few heads of the first set should give."""

    def __init__(self, case, generator, l2_bytes, sample, device):
        self.case, self.dtype, self.sample, self.device = case, TORCH_DTYPES[case.dtype], sample, device
        self.out_shape = (case.batch, case.heads, case.seqlen, case.head_dim_v)
        shapes = ((case.heads, case.seqlen, case.head_dim), (case.heads_kv, case.seqlen_k, case.head_dim),
                  (case.heads_kv, case.seqlen_k, case.head_dim_v))
        elements = case.batch * sum(map(math.prod, shapes))
        self.count = set_count(2 * elements, l2_bytes)
        self.sets = []
        for _ in range(self.count):
            tensors = [self.empty(case.batch, *shape) for shape in shapes]
            for tensor in tensors:
                tensor.normal_(generator=generator)
            VALUES[case.values](tensors[0], tensors[1])
            self.sets.append(tensors)
        self._references = {}

    def empty(self, b, h, n, d):
        """[batch, heads, seqlen, head_dim], in memory as the case's layout says."""
        if self.case.layout == "bhsd":
            return torch.empty(b, h, n, d, dtype=self.dtype, device=self.device)
        return torch.empty(b, n, h, d, dtype=self.dtype, device=self.device).transpose(1, 2)

    def references(self, mask=None):
        """[(batch entry, head, HeadReference)]: the first, the last, and random ones. `mask`: default the case's."""
        mask = mask or self.case.mask
        if mask not in self._references:
            self._references[mask] = list(self._draw_references(mask))
        return self._references[mask]

    def _draw_references(self, mask):
        case, chosen = self.case, {(0, 0), (self.case.batch - 1, self.case.heads - 1)}
        draw = random.Random(str(case))
        while len(chosen) < self.sample.heads_of(case):
            chosen.add((draw.randrange(case.batch), draw.randrange(case.heads)))
        rows = self.sample.rows_of(case, draw)
        rows = None if rows is None else torch.tensor(rows, device=self.device)
        q, k, v = self.sets[0]
        for b, h in sorted(chosen):
            kv = h // (case.heads // case.heads_kv)
            yield b, h, HeadReference(q[b, h], k[b, kv], v[b, kv], mask, 1 / math.sqrt(case.head_dim), rows=rows)
