"""Which kernel of a specification a launch takes, so that no other one is compiled before it is wanted."""

import re
import threading
from typing import Dict, List, Mapping, NamedTuple, Tuple


class Lengths(NamedTuple):
    """What guards may ask of a launch, beside the device."""

    batch: int
    seqlen_q: int
    seqlen_k: int
    heads: int
    heads_kv: int


def lengths_of(q_shape, k_shape, heads_first: bool) -> Lengths:
    heads, seqlen = (1, 2) if heads_first else (2, 1)
    return Lengths(q_shape[0], q_shape[seqlen], k_shape[seqlen], q_shape[heads], k_shape[heads])


def _if(condition, then, otherwise):
    return then if condition else otherwise


_FUNCTIONS = {
    "__builtins__": {},
    "min": min,
    "max": max,
    "ceildiv": lambda a, b: -(-a // b),
    "pow2floor": lambda a: 1 << (a.bit_length() - 1),
    "if_": _if,
}
_MOST_KEPT = 4096


def _guard(text: str):
    """docs/manifest.md's grammar, of which Python's is a superset but for the operators' spelling. Counts are never negative, so
    that quotients round alike."""
    text = text.replace("&&", " and ").replace("||", " or ").replace("/", "//").replace("if(", "if_(")
    text = re.sub(r"!(?!=)", " not ", text)
    return compile(text.replace("device.", "device_").strip(), "guard", "eval")


class Choice:
    """The schedules of a specification, in fa2_schedules' text, on a device of such properties."""

    def __init__(self, text: str, properties: Mapping[str, int]):
        main, *variants = text.splitlines()
        split = [line.split(": ", 1) for line in variants]
        # Rows behind some have a kernel of their own, beside the main schedule's: a launch runs both.
        self.schedules: List[str] = [
            f"{main}\n{line}" if fields.startswith("after ") else fields for line, (_, fields) in zip(variants, split)
        ] + [main]
        self._guards = [_guard(guard) for guard, _ in split]
        self._device = {f"device_{name}": value for name, value in properties.items() if isinstance(value, int)}
        self._kept: Dict[Tuple, int] = {}
        self._lock = threading.Lock()

    def of(self, lengths: Lengths) -> str:
        """The fields of the schedule that is for a launch, and in a second line those for the rows behind its own, if others are."""
        index = self._kept.get(lengths)
        if index is None:
            index = self._choose(lengths)
            with self._lock:
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.clear()
                self._kept[lengths] = index
        return self.schedules[index]

    def _choose(self, lengths):
        names = {**lengths._asdict(), **self._device}
        for index, guard in enumerate(self._guards):
            try:
                if eval(guard, _FUNCTIONS, names):
                    return index
            except ZeroDivisionError:  # of lengths that the launch refuses
                break
        return len(self._guards)
