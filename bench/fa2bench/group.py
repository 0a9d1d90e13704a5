"""What is measured interleaved, and how much of it is checked."""

from dataclasses import dataclass

MOST_HEADS = 16  # of a case, where its rows are few


@dataclass
class Group:
    """Entries (label, role, contestant, case) that take turns."""

    entries: list
    list: str = ""  # the list of cases that they are from


@dataclass
class Sample:
    """How much of a case is held against the reference."""

    heads: int = 3
    rows: int = 0  # of each head; 0: all

    def heads_of(self, case):
        """Few rows leave time for more heads."""
        rows = min(self.rows, case.seqlen)
        most = max(self.heads, min(MOST_HEADS, self.heads * self.rows // rows)) if rows else self.heads
        return min(most, case.batch * case.heads)

    def rows_of(self, case, draw):
        """The first quarter, the last and random ones between, in order; None for all. `draw`: a random.Random."""
        if not self.rows or case.seqlen <= self.rows:
            return None
        edge = self.rows // 4
        between = draw.sample(range(edge, case.seqlen - edge), self.rows - 2 * edge)
        return [*range(edge), *sorted(between), *range(case.seqlen - edge, case.seqlen)]
