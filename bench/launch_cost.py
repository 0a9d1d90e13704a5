#!/usr/bin/env python3
"""Measures what a launch from Python costs the host, beside PyTorch's own attention. See --help and
bench/README.md."""

import argparse
import gc
import math
import os
import statistics
import sys
import time
import unittest.mock
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH.parent / "python")]

from fa2bench import ends, options as command_line  # noqa: E402
from fa2bench.cases import Refused  # noqa: E402
from fa2bench.runtime import find_library, manifest_of  # noqa: E402

EPILOG = """\
example: launch_cost.py kernels --runtime build/release/runtime/lib/libfa2rt.so

Each forward kernel of the folder is launched through python/fa2c on tensors so small that the device is
sooner done than the host. Columns, microseconds of the host, medians over --calls calls:

  prepared       program(...) with arguments whose layout was prepared
  attributes     the same, of a program loaded under FA2_DLPACK=0: Python reads the tensors' attributes, as it does
                 where PyTorch has no C exchange functions; the first line says whether it has
  with outputs   the same, and torch.empty_like and torch.empty for out and lse
  new layout     program(...) with a layout that it never saw: everything is resolved and checked
  launch()       program.launch(...), which resolves and checks everything and prepares nothing
  SDPA           torch.nn.functional.scaled_dot_product_attention

A kernel whose target the device does not run is left out, with a line that says so. Contestants take turns in
bursts; the host waits for the device after each. exit status: 0; 1 when a kernel was wrong, or a median of
"prepared" is above --limit; 2 for bad input.
"""
COLUMNS = ("prepared", "attributes", "with outputs", "new layout", "launch()", "SDPA")
BURST = 100  # calls between two waits: far fewer than a driver queues
DEVICE_ERROR = 3  # FA2RT_ERROR_DEVICE


def parse(arguments):
    p = argparse.ArgumentParser(prog="launch_cost.py", description=__doc__, epilog=EPILOG,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kernels", type=Path, metavar="FOLDER", help="of PTX files")
    p.add_argument("--runtime", metavar="LIBRARY", help="libfa2rt.so")
    p.add_argument("--device", default="cuda", help="cuda, cuda:N; sim:sm_90 and the like try the script out")
    p.add_argument("--calls", type=command_line.positive, default=1000, metavar="N")
    p.add_argument("--limit", type=float, metavar="US", help="the most that a prepared call may cost")
    p.add_argument("--pause", type=command_line.milliseconds, default=2.0, metavar="MS", help="after each burst")
    p.add_argument("--batch", type=command_line.positive, default=1)
    p.add_argument("--heads", type=command_line.positive, default=8)
    p.add_argument("--seqlen", type=command_line.positive, default=128)
    return p.parse_args(arguments)


def find(folder):
    """[(path, manifest)] of the forward kernels."""
    found = []
    for path in sorted(folder.glob("*.ptx")):
        try:
            manifest = manifest_of(path.read_bytes())
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from None
        except Refused as error:
            raise Refused(f"{path}: {error}") from None
        if manifest["specification"]["pass"] == "forward":
            found.append((path, manifest))
    if not found:
        raise Refused(f"{folder}: expected a folder with forward kernels (*.ptx)")
    return found


def costs(contestants, calls, wait, clock=time.perf_counter_ns):
    """{label: microseconds of each call}. `contestants`: {label: function of no argument}."""
    times = {label: [] for label in contestants}
    labels = list(contestants)
    collecting = gc.isenabled()
    gc.disable()
    try:
        done = 0
        while done < calls:
            burst = min(BURST, calls - done)
            for label in labels:
                run, mine = contestants[label], times[label]
                for _ in range(burst):
                    begin = clock()
                    run()
                    mine.append((clock() - begin) / 1000)
                wait()
            labels.append(labels.pop(0))
            done += burst
    finally:
        if collecting:
            gc.enable()
    return times


class Case:
    """One kernel on tensors of its own, and what is measured of it."""

    def __init__(self, torch, device, path, manifest, options):
        self.torch = torch
        self.program = device.load(path.read_bytes())
        with unittest.mock.patch.dict(os.environ, FA2_DLPACK="0"):
            self.by_attributes = device.load(path.read_bytes())
        s = self.specification = manifest["specification"]
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[s["dtype"]]
        self.simulated = bool(device.properties()["is_simulated"])
        place = "cpu" if self.simulated else f"cuda:{device.properties()['ordinal']}"

        def random(head_dim):
            shape = (options.batch, options.seqlen, options.heads, head_dim)
            return torch.randn(shape, dtype=torch.float32).to(device=place, dtype=dtype)

        self.q, self.k, self.v = random(s["head_dim"]), random(s["head_dim"]), random(s["head_dim_v"])
        self.out = torch.full_like(self.v, float("nan"))
        shape = (options.batch, options.heads, options.seqlen)
        self.lse = torch.full(shape, float("nan"), dtype=torch.float32, device=place)
        self.scales = 0

    @property
    def arguments(self):
        return dict(q=self.q, k=self.k, v=self.v, out=self.out, lse=self.lse)

    def error(self):
        """The largest of out against float64, of each way to call; NaN where a kernel left NaN."""
        wanted, errors = self.wanted(), []
        for run in (self.prepared, self.prepared, self.attributes):  # the first prepares, the second need not
            self.out.fill_(float("nan"))
            run()
            errors.append(float((self.out.double() - wanted).abs().max()))
        return math.nan if any(map(math.isnan, errors)) else max(errors)

    def wanted(self):
        q, k, v = (x.double().transpose(1, 2) for x in (self.q, self.k, self.v))
        scores = q @ k.transpose(2, 3) * self.specification["head_dim"] ** -0.5
        if self.specification["mask"] != "none":  # square: both corners are the same
            hidden = self.torch.ones_like(scores, dtype=self.torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        return (scores.softmax(-1) @ v).transpose(1, 2)

    def prepared(self):
        self.program(q=self.q, k=self.k, v=self.v, out=self.out, lse=self.lse)

    def attributes(self):
        self.by_attributes(q=self.q, k=self.k, v=self.v, out=self.out, lse=self.lse)

    def with_outputs(self):
        out = self.torch.empty_like(self.v)
        lse = self.torch.empty(self.lse.shape, dtype=self.torch.float32, device=self.lse.device)
        self.program(q=self.q, k=self.k, v=self.v, out=out, lse=lse)

    def new_layout(self):
        self.scales += 1  # a scale is part of the layout
        self.program(q=self.q, k=self.k, v=self.v, out=self.out, lse=self.lse, scale=1 + self.scales * 2.0**-20)

    def contestants(self):
        torch = self.torch
        found = {"prepared": self.prepared, "attributes": self.attributes, "with outputs": self.with_outputs,
                 "new layout": self.new_layout}
        arguments, size = self.arguments, self.program.workspace_size(**self.arguments)
        # The stream and the workspace that a caller of launch() brings.
        stream = None if self.simulated else torch.cuda.current_stream(self.q.device).cuda_stream
        workspace = torch.zeros(size + 512, dtype=torch.uint8, device=self.q.device)
        address = -(-workspace.data_ptr() // 512) * 512

        def launch(keep=workspace):
            self.program.launch(arguments, address if size else None, size, stream)

        found["launch()"] = launch
        attention = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
        if attention is not None:
            q, k, v = (x.transpose(1, 2) for x in (self.q, self.k, self.v))
            causal = self.specification["mask"] != "none"
            found["SDPA"] = lambda: attention(q, k, v, is_causal=causal)
        return found


def row_label(path, manifest):
    s = manifest["specification"]
    dims = s["head_dim"] if s["head_dim"] == s["head_dim_v"] else f"{s['head_dim']}/{s['head_dim_v']}"
    return f"{path.name}: {manifest['target']['arch']} {s['dtype']} {dims} {s['mask']}"


def table(rows):
    """Markdown of [(label, {column: microseconds of each call})]: medians, and in brackets the 9th decile."""
    lines = ["| host time of a launch, us | " + " | ".join(COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS)]
    for label, times in rows:
        cells = []
        for column in COLUMNS:
            values = sorted(times.get(column, []))
            decile = values[min(len(values) - 1, len(values) * 9 // 10)] if values else 0
            cells.append(f"{statistics.median(values):.1f} ({decile:.1f})" if values else "-")
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def measure(options):
    kernels = find(options.kernels)  # refuses before a GPU is touched
    os.environ["FA2RT_LIBRARY"] = find_library(options.runtime)
    simulated = options.device.startswith("sim")
    torch = ends.with_torch() if simulated else ends.with_gpu(options.device)
    import fa2c
    from fa2c.exchange import tensor_reader

    try:
        device = fa2c.Device(options.device)
    except (fa2c.Error, OSError) as error:
        raise Refused(str(error)) from None

    def wait():
        if not simulated:
            torch.cuda.synchronize(options.device)
            time.sleep(options.pause / 1000)

    exchanges = "with" if tensor_reader(torch.Tensor) else "without"
    print(f"{device.properties()['name']}, PyTorch {torch.__version__} {exchanges} DLPack's C exchange functions, "
          f"fa2 runtime {fa2c.version()}, Python {sys.version.split()[0]}, "
          f"batch {options.batch}, heads {options.heads}, seqlen {options.seqlen}, {options.calls} calls", flush=True)
    torch.manual_seed(0)
    rows, failed = [], False
    with torch.inference_mode():
        for path, manifest in kernels:
            label = row_label(path, manifest)
            try:
                case = Case(torch, device, path, manifest, options)
                error = case.error()
                if not error < 0.05:
                    print(f"FAILED {label}: out is off by {error:.3g}")
                    failed = True
                    continue
                contestants = case.contestants()
                costs(contestants, min(3 * BURST, options.calls), wait)  # warm
                rows.append((label, costs(contestants, options.calls, wait)))
            except fa2c.Error as error:
                failed |= error.status != DEVICE_ERROR
                print(f"{'left out' if error.status == DEVICE_ERROR else 'FAILED'} {label}: {error}")
    if rows:
        print(table(rows))
    for label, times in rows:
        median = statistics.median(times["prepared"])
        if options.limit is not None and median > options.limit:
            print(f"FAILED {label}: a prepared call costs {median:.1f} us; the limit is {options.limit:g}")
            failed = True
    if not rows and not failed:
        raise Refused(f"{options.kernels}: the device runs none of the kernels")
    return 1 if failed else 0


def main(arguments):
    options = parse(arguments)
    return ends.said("launch_cost.py", lambda: measure(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
