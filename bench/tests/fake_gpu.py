"""Stand-ins for a GPU: its stream and clock, and kernels that compute on the CPU. They need PyTorch."""

import contextlib
import math
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch

from fa2bench import measure, run
from fa2bench.check import visible
from fa2bench.kernels import KernelFile

from tests.fake import manifest

torch.set_num_threads(1)  # the tensors are small


def attention(q, k, v, mask, scale, shift=0):
    """[seqlen, d] each, in f32: (out, lse). `shift`: so many keys more than the mask allows."""
    rows = torch.arange(q.shape[0])
    seen = visible(mask, rows, q.shape[0], k.shape[0]) + shift
    hidden = torch.arange(k.shape[0])[None] >= seen[:, None]
    scores = (q.float() @ k.float().T * scale).masked_fill(hidden, -math.inf)
    lse = torch.logsumexp(scores, 1)
    weights = torch.exp(scores - lse[:, None]).masked_fill(hidden, 0).to(q.dtype)
    return (weights.float() @ v.float()).to(q.dtype), lse


class FakeEvent:
    """Records the stand-in stream's clock."""

    def __init__(self, stream):
        self.stream, self.at = stream, None

    def record(self):
        self.at = self.stream.device

    def query(self):
        return self.stream.host >= self.at

    def synchronize(self):
        self.stream.host = max(self.stream.host, self.at)

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


class FakeStream:
    """A device and a host clock in seconds: a launch costs both."""

    def __init__(self, host_seconds=20e-6):
        self.host, self.device, self.host_seconds = 0.0, 0.0, host_seconds

    def launch(self, seconds):
        self.host += self.host_seconds
        self.device = max(self.device, self.host) + seconds

    def synchronize(self):
        self.host = max(self.host, self.device)

    def patches(self):
        cuda = {"Event": lambda enable_timing=False: FakeEvent(self), "synchronize": self.synchronize,
                "_sleep": lambda cycles: self.launch(cycles / 2e9), "empty_cache": lambda: None,
                "get_device_properties": lambda _: SimpleNamespace(L2_cache_size=1 << 20, total_memory=1 << 37),
                "memory_reserved": lambda: 0}
        return mock.patch.multiple(torch.cuda, create=True, **cuda)

    def clock(self):
        return mock.patch.object(measure, "time", SimpleNamespace(
            sleep=lambda s: setattr(self, "host", self.host + s), perf_counter=lambda: self.host,
            monotonic=lambda: self.host))


def cpu_kernel(stream, key, name="good.ptx", fault=None, label="ours", seconds=1e-4):
    """A KernelFile whose launches compute on the CPU; fault(out, launch number)."""
    head_dim, head_dim_v, mask, dtype = key
    kernel = KernelFile(label, Path(name), b"", None, manifest(head_dim, mask, dtype, head_dim_v))
    launches = []

    def bind(q, k, v, out, lse, allocate):
        def call(_):
            launches.append(1)
            group = q.shape[1] // k.shape[1]
            for b in range(q.shape[0]):
                for h in range(q.shape[1]):
                    out[b, h], lse[b, h] = attention(q[b, h], k[b, h // group], v[b, h // group],
                                                     mask, 1 / math.sqrt(head_dim))
            if fault:
                fault(out, len(launches))
            stream.launch(seconds)
        return call
    kernel.bind = bind
    kernel.load = lambda library, device: [{"registers": 200, "local_bytes": 0, "shared_bytes": 9,
                                            "threads": 128}]
    return kernel


@contextlib.contextmanager
def on_cpu(stream):
    with stream.patches(), stream.clock(), mock.patch.object(run, "DEVICE", "cpu"), \
            mock.patch.object(run, "current_stream", lambda device: None):
        yield


def run_options(**changes):
    return SimpleNamespace(**{"seed": 0, "seconds": 1.0, "pause": 60.0, "bits": False, "untimed": False, **changes})
