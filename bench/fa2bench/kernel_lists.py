"""Lists of kernels for a session on a GPU: what to check, and what to time against what.

A line is a kernel to check: the flags of fa2-compile, or a PTX file beside the list (as in test/Grid/kernels.txt). A group names what
is timed; its first candidate is the baseline:

    group dq d=64,128 mask=none,causal: --pass backward --arch sm_90a --head-dim {d} --mask {mask}
      at 2048 8192
      sums:
      recompute: --dq recompute

`d` and `mask` are names of the list's own: there is a group of each combination of their values. `at` says the lengths (default: 2048 and
8192; 4096x4095 are queries and keys), and after them may say tokens=N (batch * queries, default 16384) and hidden=N (heads * head dim,
default 2048).

Flags with `compiler=NAME` are for another compiler, which `hardware.py build --compiler NAME=FILE` names: today's kernels beside
those of an older commit.
"""

import itertools
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from .cases import Refused

SIZES = {"tokens": 16384, "hidden": 2048}
LENGTHS = ((2048, 2048), (8192, 8192))  # queries, keys


@dataclass
class Candidates:
    """One group: [(name, flags)], the baseline first."""

    name: str
    candidates: list
    lengths: tuple = LENGTHS
    sizes: dict = field(default_factory=lambda: dict(SIZES))


@dataclass
class _Draft:
    name: str
    values: dict
    flags: str
    candidates: list = field(default_factory=list)
    lengths: tuple = LENGTHS
    sizes: dict = field(default_factory=lambda: dict(SIZES))

    def groups(self):
        for chosen in itertools.product(*self.values.values()):
            named = dict(zip(self.values, chosen))
            words = [(name, shlex.split((self.flags + " " + more).format(**named))) for name, more in self.candidates]
            yield Candidates("-".join([self.name, *chosen]), words, self.lengths, self.sizes)


def _whole(where, name, text):
    if not text.isdecimal() or int(text) == 0:
        raise Refused(f"{where}: {name} is '{text}'; it must be a whole number from 1")
    return int(text)


def _lengths(where, word):
    queries, times, keys = word.partition("x")
    queries = _whole(where, "a length", queries)
    return queries, _whole(where, "a length", keys) if times else queries


def _draft(where, line):
    head, colon, flags = line.partition(":")
    words = head.split()[1:]
    if not colon or not words or not re.fullmatch(r"[\w.-]+", words[0]):
        raise Refused(f"{where}: expected 'group NAME [KEY=VALUE,...]: FLAGS', got '{line}'")
    values = {}
    for word in words[1:]:
        key, equals, text = word.partition("=")
        if not (key and equals and text):
            raise Refused(f"{where}: expected KEY=VALUE,... after the group's name, got '{word}'")
        values[key] = text.split(",")
    return _Draft(words[0], values, flags)


def _continue(where, draft, line):
    words = line.split()
    if words[0] == "at":
        draft.lengths = tuple(_lengths(where, w) for w in words[1:] if "=" not in w) or LENGTHS
        for key, _, text in (w.partition("=") for w in words[1:] if "=" in w):
            if key not in SIZES:
                raise Refused(f"{where}: '{key}' is none of {', '.join(SIZES)}")
            draft.sizes[key] = _whole(where, key, text)
        return
    name, colon, flags = line.partition(":")
    if not colon or not re.fullmatch(r"[\w.-]+", name):
        raise Refused(f"{where}: expected 'NAME: FLAGS' or 'at LENGTHS' in a group, got '{line}'")
    if name in (n for n, _ in draft.candidates):
        raise Refused(f"{where}: the group has a candidate '{name}' already")
    draft.candidates.append((name, flags))


def read_list(path):
    """([flags or a PTX file's Path], [Candidates])"""
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    kernels, drafts = [], []
    for number, line in enumerate(lines, 1):
        where, text = f"{path}, line {number}", line.strip()
        if not text or text.startswith("#"):
            continue
        if line[0].isspace():
            if not drafts:
                raise Refused(f"{where}: an indented line belongs to a group, and there is none before it")
            _continue(where, drafts[-1], text)
        elif text.startswith("group "):
            drafts.append(_draft(where, text))
        elif text.endswith(".ptx"):
            kernels.append(path.parent / text)
        else:
            kernels.append(shlex.split(text))
    for draft in drafts:
        if len(draft.candidates) < 2:
            raise Refused(f"{path}: the group '{draft.name}' has {len(draft.candidates)} candidates; a comparison has 2 or more")
    try:
        groups = [group for draft in drafts for group in draft.groups()]
    except (KeyError, IndexError) as error:
        raise Refused(f"{path}: {error} stands in braces and is no key of its group") from None
    twice = {g.name for g in groups if sum(g.name == other.name for other in groups) > 1}
    if twice:
        raise Refused(f"{path}: several groups are called '{sorted(twice)[0]}'")
    return kernels, groups
