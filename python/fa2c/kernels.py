"""Compiled kernels on devices: kept in memory; the compiler keeps them on disk."""

import os
import threading
from dataclasses import replace
from typing import Dict, Optional, Tuple

from .choice import Choice, Lengths
from .compiler import CompileError, compile_ptx, schedules
from .runtime import Device, Program
from .specification import Specification

# Architectures of kernels that later GPUs run too; each has its own limits of shared memory.
_ARCHITECTURES = (80, 86, 87, 89, 90, 100, 103, 110, 120, 121)


def architectures(compute_capability: int) -> Tuple[str, ...]:
    """What is compiled for on a GPU of that compute capability (90 for 9.0), the fastest first. The last covers everything."""
    known = [arch for arch in _ARCHITECTURES if arch <= compute_capability]
    if not known:
        raise NotImplementedError(
            f"the GPU has compute capability {compute_capability / 10}; expected 8.0 or later (A100 and newer)"
        )
    return ("sm_90a",) * (compute_capability == 90) + (f"sm_{known[-1]}",)


def compiled(specification: Specification, compute_capability: int, make):
    """make(specification, architecture) for the first architecture that covers it."""
    *best, last = architectures(compute_capability)
    for arch in best:
        try:
            return make(specification, arch)
        except CompileError:
            covered = replace(specification, schedule=None)
            if covered != specification and _covers(covered, arch):
                raise  # its schedule is what is wrong
    return make(specification, last)


def _covers(specification: Specification, arch: str) -> bool:
    try:
        schedules_of(specification, arch)
        return True
    except CompileError:
        return False


def ptx_of(specification: Specification, arch: str) -> bytes:
    return compile_ptx(specification.text(arch), specification.module()).ptx


def schedules_of(specification: Specification, arch: str) -> str:
    return schedules(specification.text(arch), specification.module())


def simulator_name() -> str:
    return os.environ.get("FA2_SIMULATOR", "sim")


class Kernels:
    """Devices and programs of this process, each made once, whatever thread asks first."""

    def __init__(self):
        self._forget()

    def _forget(self):
        self._devices: Dict[Optional[int], Device] = {}
        self._programs: Dict[Tuple, Program] = {}
        self._choices: Dict[Tuple, Choice] = {}
        self._making: Dict[Tuple, threading.Lock] = {}
        self._lock = threading.Lock()
        self._forked_from_cuda = False

    def after_fork(self):
        """In a child: its parent's contexts on GPUs are none of its own, and locks may be held for ever."""
        had_cuda = self._forked_from_cuda or any(ordinal is not None for ordinal in self._devices)
        # Freeing them would call the parent's driver.
        for owner in (*self._programs.values(), *self._devices.values()):
            owner.abandon()
        self._forget()
        self._forked_from_cuda = had_cuda

    def device(self, ordinal: Optional[int]) -> Device:
        """CUDA's device of that number; the simulator for None."""
        with self._lock:
            if ordinal not in self._devices:
                if ordinal is not None and self._forked_from_cuda:
                    raise RuntimeError(
                        "this process was forked from one that used CUDA, whose context it cannot use; start it by "
                        "multiprocessing's method 'spawn' or 'forkserver'"
                    )
                self._devices[ordinal] = Device(simulator_name() if ordinal is None else f"cuda:{ordinal}")
            return self._devices[ordinal]

    def program_for(self, lengths: Lengths, ordinal: Optional[int], specification: Specification, heads_first: bool) -> Program:
        """The loaded kernel for launches of such lengths: the one that would run if all of the specification were loaded."""
        key = (ordinal, specification)
        choice = self._choices.get(key)
        if choice is None:
            with self._making_of(key):
                choice = self._choices.get(key)
                if choice is None:
                    properties = self.device(ordinal).properties()
                    text = compiled(specification, properties["compute_capability"], schedules_of)
                    choice = self._choices[key] = Choice(text, properties)
        return self.program(ordinal, replace(specification, schedule=choice.of(lengths)), heads_first)

    def program(self, ordinal: Optional[int], specification: Specification, heads_first: bool = False) -> Program:
        """The loaded kernels of a specification, all of them; see Device.load for `heads_first`."""
        key = (ordinal, specification, heads_first)
        program = self._programs.get(key)
        if program is None:
            with self._making_of(key):
                program = self._programs.get(key)
                if program is None:
                    device = self.device(ordinal)
                    ptx = compiled(specification, device.properties()["compute_capability"], ptx_of)
                    program = self._programs[key] = device.load(ptx, heads_first=heads_first)
        return program

    def _making_of(self, key):
        with self._lock:
            return self._making.setdefault(key, threading.Lock())


kernels = Kernels()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=kernels.after_fork)
