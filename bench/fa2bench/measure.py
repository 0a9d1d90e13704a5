"""Times of many contestants in one run, none of the host's in them.

A round visits every contestant once: an idle pause (heat), then a burst of launches between
events. Before each burst the stream is held by a kernel that sleeps until the host has queued the
whole burst; that it did is verified, else the burst is measured again behind a longer hold. The
order rotates from round to round and turns round every second time. Each launch takes the next
of several sets of inputs, which together are larger than the L2 cache.
"""

import statistics
import time
from dataclasses import dataclass, field

import torch

BURST_MS = 12.0  # longer bursts heat the card, shorter ones waste the pause
LEAST_BURST, MOST_BURST = 3, 10
LEAST_ROUNDS, MOST_ROUNDS = 4, 15


class MeasurementFailed(Exception):
    """A contestant's launches failed while they were timed; the text names it."""


@dataclass(eq=False)
class Contestant:
    """launch(i) queues one run on the i-th set of inputs."""

    label: str
    launch: object
    sets: int
    burst: int = LEAST_BURST
    hold_cycles: int = 0
    times: list = field(default_factory=list)  # ms
    next_set: int = 0

    def take(self):
        self.next_set = (self.next_set + 1) % self.sets
        return self.next_set

    @property
    def median(self):
        return statistics.median(self.times)


def set_count(bytes_a_set, l2_bytes):
    """Sets of inputs so that a launch finds nothing of its own in the L2 cache."""
    return int(max(2, min(64, -(-2 * l2_bytes // bytes_a_set) + 1)))


def rounds_for(seconds, seconds_a_round):
    return int(max(LEAST_ROUNDS, min(MOST_ROUNDS, seconds / max(seconds_a_round, 1e-6))))


def order_of(count, round_index):
    """Every contestant comes first once in `count` rounds; odd rounds run backwards."""
    first = round_index % max(count, 1)
    order = [(first + i) % count for i in range(count)]
    return order if round_index % 2 == 0 else order[::-1]


def calibrate(contestant):
    """Warms up (compilation, plans, allocations) and sets the burst and the hold."""
    for _ in range(2):
        contestant.launch(contestant.take())
    torch.cuda.synchronize()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    began = time.perf_counter()
    start.record()
    contestant.launch(contestant.take())
    stop.record()
    host = time.perf_counter() - began
    stop.synchronize()
    milliseconds = start.elapsed_time(stop)
    contestant.burst = int(max(LEAST_BURST, min(MOST_BURST, BURST_MS / max(milliseconds, 1e-3))))
    # 2 GHz at most: cycles for three times the host's time, and half a millisecond.
    contestant.hold_cycles = int(2e9 * (3 * host * (contestant.burst + 1) + 5e-4))
    return milliseconds


def burst(contestant):
    """The times of one burst, ms."""
    for _ in range(8):
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
                  for _ in range(contestant.burst)]
        held = torch.cuda.Event()
        torch.cuda._sleep(contestant.hold_cycles)
        held.record()
        contestant.launch(contestant.take())  # untimed: clocks and caches are in the same state
        for start, stop in events:
            start.record()
            contestant.launch(contestant.take())
            stop.record()
        queued_in_time = not held.query()
        torch.cuda.synchronize()
        if queued_in_time:
            return [start.elapsed_time(stop) for start, stop in events]
        contestant.hold_cycles *= 2
    raise MeasurementFailed(f"{contestant.label}: the host takes too long to queue its launches, or "
                            "they wait for the device; its times would be the host's")


def named(function, contestant):
    """function(contestant), its failure named."""
    try:
        return function(contestant)
    except MeasurementFailed:
        raise
    except Exception as error:
        raise MeasurementFailed(f"{contestant.label}: {str(error).splitlines()[0]}") from error


def interleave(contestants, seconds, pause_ms):
    """Fills every contestant's times; returns the number of rounds."""
    seconds_a_round = 0.0
    for contestant in contestants:
        milliseconds = named(calibrate, contestant)
        seconds_a_round += (pause_ms + milliseconds * (contestant.burst + 1)) / 1e3
        seconds_a_round += contestant.hold_cycles / 1.5e9
    rounds = rounds_for(seconds, seconds_a_round)
    for index in range(rounds):
        for which in order_of(len(contestants), index):
            time.sleep(pause_ms / 1e3)
            contestants[which].times += named(burst, contestants[which])
    return rounds


class Budget:
    """Divides the seconds left among the groups left, by their weights."""

    def __init__(self, seconds, weights, clock=time.monotonic):
        self.clock, self.end = clock, clock() + seconds
        self.weights = list(weights)

    def next(self):
        share = self.weights[0] / sum(self.weights)
        self.weights.pop(0)
        return max(0.0, (self.end - self.clock()) * share)
