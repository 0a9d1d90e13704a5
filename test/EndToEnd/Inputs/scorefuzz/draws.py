"""Draws from a seed."""
import random as python_random


class Random:
    """Draws that are the same in every version of Python: of random() alone."""

    def __init__(self, seed):
        self.source = python_random.Random(seed)

    def chance(self, p):
        return self.source.random() < p

    def between(self, low, high):
        return low + int(self.source.random() * (high - low + 1))

    def pick(self, choices):
        choices = list(choices)
        return choices[int(self.source.random() * len(choices))]
