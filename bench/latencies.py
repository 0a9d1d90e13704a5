#!/usr/bin/env python3
"""How long the instructions and the copies that attention is made of take on an sm_90 card, and how many fit into a clock;
beside them what lib/Target/Rates.cpp says. See --help and bench/README.md."""

import argparse
import csv
import ctypes
import math
import re
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fa2bench import ends  # noqa: E402
from fa2bench.cases import Refused  # noqa: E402
from fa2bench.probes import (  # noqa: E402
    GROUPS, LENGTHS, READING, REDUCING, ROWS, SLOT_BYTES, SLOTS, all_probes)
from fa2bench.text import markdown_rows  # noqa: E402

EPILOG = """\
examples:
  latencies.py --csv latencies.csv    measures, in less than half a minute
  latencies.py --check-ptx folder     writes the kernels as PTX and assembles them: needs no GPU and no PyTorch

A kernel takes a sample by reading its multiprocessor's clock before and after what is measured; warps leave a barrier
before it together, and a sample lasts from the first warp's start to the last one's end. What stands in a loop is the
difference of two counts of iterations over the difference of the counts, so that neither the clock's own time nor the
start counts; what does not is less the time between two readings of the clock that have nothing between them. "value"
is a median, "least" and "most" are those of the repeats or, of what stands in no loop, of all samples. Unless a row says
"all multiprocessors", one block runs and its clocks are counted. What comes from L2 was read by the launch before; what
comes from memory was not, and four times the L2 cache's bytes were written since.
exit status: 0; 1 when the driver refused, a kernel left its results unwritten, a number is not positive, or ptxas
warned; 2 where there is no sm_90 device or no PyTorch, or for bad input.
"""

SAMPLES, DROPPED, REPEATS = 24, 4, 5  # a launch's first samples find neither instructions nor translations in a cache
LINE, LINES = 4096, 2048  # of a chain of pointers
REGION_L2, REGION_MEMORY, STEP = 16 << 20, 512 << 20, 32 << 10
RATES = Path(__file__).resolve().parent.parent


class Card:
    """Launches probes, and keeps a row of each thing measured."""

    def __init__(self, torch):
        self.torch, self.driver = torch, ctypes.CDLL("libcuda.so.1")
        properties = torch.cuda.get_device_properties(0)
        self.name, self.multiprocessors = properties.name, properties.multi_processor_count
        self.probes, self.functions, self.rows, self.measured = all_probes(), {}, [], {}
        self.values = torch.randn(1 << 19, device="cuda", generator=torch.Generator(device="cuda").manual_seed(0)).bfloat16()
        self.large = torch.zeros(REGION_MEMORY, dtype=torch.uint8, device="cuda")
        self.other = torch.zeros(4 * properties.L2_cache_size, dtype=torch.uint8, device="cuda")
        self.reading = self.gigahertz = 0.0

    def check(self, status, name):
        if status:
            raise RuntimeError(f"{name}: the driver refused with error {status}")

    def function(self, name):
        if name not in self.functions:
            module, function, shared = ctypes.c_void_p(), ctypes.c_void_p(), self.probes[name].shared
            self.check(self.driver.cuModuleLoadData(ctypes.byref(module), self.probes[name].ptx().encode()), name)
            self.check(self.driver.cuModuleGetFunction(ctypes.byref(function), module, b"probe"), name)
            if shared:
                self.check(self.driver.cuFuncSetAttribute(function, 8, shared), name)  # the most dynamic shared memory
            self.functions[name] = function
        return self.functions[name]

    def start(self, name, threads, blocks, pointers=(0, 0, 0), numbers=(0, 0, 0)):
        arguments = [*map(ctypes.c_uint64, pointers), *map(ctypes.c_uint32, numbers)]
        addresses = (ctypes.c_void_p * 6)(*map(ctypes.addressof, arguments))
        stream = ctypes.c_void_p(self.torch.cuda.current_stream().cuda_stream)
        self.check(self.driver.cuLaunchKernel(self.function(name), blocks, 1, 1, threads, 1, 1, self.probes[name].shared,
                                              stream, addresses, None), name)

    def launch(self, name, threads, blocks=1, samples=SAMPLES, count=1, data=None, step=0):
        """Clocks of each sample, means over the blocks; `gigahertz` is then the clock from the first to the last."""
        rows = self.torch.full((blocks, samples, threads // 32, 4), -1, dtype=self.torch.int64, device="cuda")
        sums = self.torch.full((blocks * threads,), -1, dtype=self.torch.int32, device="cuda")
        data = self.values if data is None else data
        self.start(name, threads, blocks, (rows.data_ptr(), sums.data_ptr(), data.data_ptr()), (samples, count, step))
        self.torch.cuda.synchronize()
        rows, begin, end = rows.cpu(), rows[..., 0].amin(-1).cpu(), rows[..., 1].amax(-1).cpu()
        if bool((rows <= 0).any()) or bool((end < begin).any()) or bool((sums == -1).any()):
            raise RuntimeError(f"{name}: the kernel did not write its results")
        clocks = (end.amax(1) - begin.amin(1)).double()
        self.gigahertz = float((clocks / (rows[..., 3].amax((1, 2)) - rows[..., 2].amin((1, 2)))).mean())
        return (end - begin).double().mean(0).tolist()

    def warm(self, name, threads, cold=False, **how):
        """The second of two launches, the first samples left out; `cold`: the L2 cache then has nothing of its data."""
        self.launch(name, threads, **how)
        if cold:
            self.other.add_(1)
        return self.launch(name, threads, **how)[DROPPED:]

    def shots(self, name, threads, **how):
        """Lists of each repeat's samples, less the time between two readings of the clock."""
        return [[clocks - self.reading for clocks in self.warm(name, threads, **how)] for _ in range(REPEATS)]

    def slopes(self, name, threads, counts=(8, 40), **how):
        """Clocks of an iteration, once for each repeat."""
        few, many = counts
        return [(statistics.median(self.warm(name, threads, count=many, **how))
                 - statistics.median(self.warm(name, threads, count=few, **how))) / (many - few) for _ in range(REPEATS)]

    def times(self, name, text):
        """How often a text stands in what a probe takes samples of, or in its loop's body."""
        return self.probes[name].timed.count(text)

    def row(self, what, unit, values, field=None):
        """`field`: of Rates, which this is a measurement of."""
        self.rows.append((what, unit, statistics.median(values), min(values), max(values)))
        if field:
            self.measured[field] = statistics.median(values), what


def measure_clock(card):
    card.row("reading of the clock", "clocks", sum(card.shots("clock", 32), []))
    card.reading = card.rows[-1][2]
    name, count, found = "wgmma-256-shared-load", 50_000, {"alone": [], "loaded": []}
    work, rates = card.times(name, "mma_async") * GROUPS * 2 * ROWS * 256 * 16 * count, []

    def multiply():
        return work / card.launch(name, GROUPS * 128, card.multiprocessors, 1, count)[0]

    multiply()  # so that the card leaves its idle clock
    for _ in range(3):
        card.launch("fma-latency", 32, samples=1, count=30_000)
        found["alone"].append(card.gigahertz)
    for _ in range(3):
        rates.append(multiply())
        found["loaded"].append(card.gigahertz)
    card.row("clock, one warp runs", "GHz", found["alone"])
    card.row("clock, all multiprocessors multiply", "GHz", found["loaded"], "clockGHz")
    card.row("wgmma m64n256k16, 3 warpgroups, all multiprocessors", "flops a clock of one", rates, "tensorFlops")
    time.sleep(0.2)


def measure_wgmma(card):
    for columns in (64, 128, 256):
        for source in ("shared memory", "registers"):
            what, name = f"wgmma m64n{columns}k16, A from {source}", f"wgmma-{columns}-{source.split()[0]}"
            for groups in range(1, GROUPS + 1):
                shots = {length: card.shots(f"{name}-{length}", 128 * groups) for length in LENGTHS}
                fits = [statistics.linear_regression(LENGTHS, [statistics.median(shots[length][i]) for length in LENGTHS])
                        for i in range(REPEATS)]
                if groups == 1:
                    for length in (4, 8):
                        card.row(f"{what}: fence to the wait's end, {length} products", "clocks", sum(shots[length], []))
                    card.row(f"{what}: of that, besides products", "clocks", [fit.intercept for fit in fits],
                             "matmulLatency" if (columns, source) == (64, "shared memory") else None)
                    card.row(f"{what}: of that, a product", "clocks", [fit.slope for fit in fits])
                card.row(f"{what}: warpgroups {groups}", "flops a clock",
                         [groups * 2 * ROWS * columns * 16 / fit.slope for fit in fits])


def measure_arithmetic(card):
    for name, instruction, field in (("ex2", "ex2.approx.ftz.f32", "exponentials"), ("fma", "fma.rn.f32", "lanes"),
                                     ("cvt", "cvt.rn.bf16x2.f32", None), ("shfl", "shfl.sync.bfly.b32", None)):
        if name != "cvt":
            times = card.times(f"{name}-latency", instruction)
            card.row(f"{instruction}: latency", "clocks", [x / times for x in card.slopes(f"{name}-latency", 32)])
        for warps in (4, 8, 12, 16) if name != "shfl" else ():
            lanes = 32 * warps * card.times(name, instruction)
            card.row(f"{instruction}: warps {warps}", "lanes a clock", [lanes / x for x in card.slopes(name, 32 * warps)], field)


def measure_shared(card):
    times = card.times("shared-load-latency", "ld.shared")
    card.row("ld.shared.v4.b32: latency", "clocks", [x / times for x in card.slopes("shared-load-latency", 32)])
    for name, what in (("ld.shared", "ld.shared.v4.b32"), ("st.shared", "st.shared.v4.b32"),
                       ("ldmatrix", "ldmatrix.x4"), ("ldmatrix-trans", "ldmatrix.x4.trans"),
                       ("stmatrix", "stmatrix.x4"), ("stmatrix-trans", "stmatrix.x4.trans")):
        size = 16 * 512 * card.times(name, "[%at + ")
        card.row(f"{what}: warps 16", "bytes a clock", [size / x for x in card.slopes(name, 512)],
                 "sharedBytes" if name == "ld.shared" else None)


def measure_copies(card):
    for kilobytes in (1, 4, 16):
        for cold, where in ((False, "L2"), (True, "memory")):
            shots = card.shots(f"copy-{kilobytes}", 32, cold=cold, data=card.large, step=STEP)
            card.row(f"cp.async.bulk of {kilobytes} KiB from {where}: to the end of its wait", "clocks", sum(shots, []),
                     "copyLatency" if kilobytes == 1 and not cold else None)


def measure_barriers(card):
    card.row("mbarrier: arrive to the other warp's wait", "clocks", [x / 2 for x in card.slopes("mbarrier", 64)])
    times = card.times("bar.sync", "bar.sync")
    for threads in (128, 256):
        card.row(f"bar.sync: threads {threads}", "clocks", [x / times for x in card.slopes("bar.sync", threads)])


def measure_reductions(card):
    torch, blocks = card.torch, card.multiprocessors
    for width in (1, 4):
        counts, data = (8, 40), torch.zeros(blocks * 8 * REDUCING * width, device="cuda")
        slopes = card.slopes(f"reductions-{width}", REDUCING, counts, blocks=blocks, data=data)
        if not bool((data == REPEATS * 2 * SAMPLES * sum(counts)).all()):
            raise RuntimeError(f"reductions-{width}: the sums are not those of all launches")
        card.row(f"red.global.add{'.v4' if width > 1 else ''}.f32: all multiprocessors", "elements a clock",
                 [data.numel() / x for x in slopes])


def measure_pointers(card):
    torch = card.torch
    chain = torch.zeros(LINES * LINE // 8, dtype=torch.int64, device="cuda")
    chain[::LINE // 8] = torch.arange(1, LINES + 1, device="cuda") % LINES * LINE + chain.data_ptr()
    for cold, where in ((False, "L2"), (True, "memory")):
        slopes = card.slopes("pointers", 32, (4, 12), cold=cold, data=chain)
        card.row(f"ld.global from {where}: latency", "clocks", [x / card.times("pointers", "ld.global") for x in slopes])


def measure_bandwidth(card):
    blocks = card.multiprocessors
    for name, what, threads, size in (("copies", "cp.async.bulk of 16 KiB", 32, SLOTS * SLOT_BYTES),
                                      ("loads", "ld.global.v4.b32", READING, 64 * READING)):
        for region, where in ((REGION_L2, "L2"), (REGION_MEMORY, "memory")):
            slopes = card.slopes(name, threads, (4, 20), blocks=blocks, data=card.large, step=region - 1)
            card.row(f"{what} from {where}, all multiprocessors", "bytes a clock of one", [size / x for x in slopes],
                     "globalBytes" if (name, where) == ("copies", "L2") else None)
            if where == "memory":
                card.row(f"{what} from {where}, all multiprocessors", "GB/s",
                         [size / x * blocks * card.gigahertz for x in slopes])


def measure_launches(card):
    torch = card.torch

    def nanoseconds(queue, count):
        """Of `count` kernels that were queued while the stream was held."""
        for hold in (1e7, 4e7, 16e7):
            held, start, stop = torch.cuda.Event(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(int(hold))
            held.record()
            start.record()
            queue(count)
            stop.record()
            in_time = not held.query()
            torch.cuda.synchronize()
            if in_time:
                return start.elapsed_time(stop) * 1e6
        raise RuntimeError("empty: the host takes too long to queue launches")

    def one_by_one(count):
        for _ in range(count):
            card.start("empty", 128, card.multiprocessors)

    graphs, few, many = {}, 20, 120
    one_by_one(few)
    for count in (few, many):
        graphs[count] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[count]):
            one_by_one(count)
        graphs[count].replay()
    for what, queue, field in (("in a stream", one_by_one, "launchClocks"),
                               ("in a CUDA graph", lambda count: graphs[count].replay(), None)):
        found = [(nanoseconds(queue, many) - nanoseconds(queue, few)) / (many - few) for _ in range(REPEATS)]
        card.row(f"empty kernels {what}: from one's end to the next's", "ns", found)
        if field and "clockGHz" in card.measured:
            card.measured[field] = card.rows[-1][2] * card.measured["clockGHz"][0], card.rows[-1][0]


def stands():
    """[(field, number)] of Rates.cpp's H200, in Rates.h's order."""
    header, source = (RATES / name for name in ("include/fa2/Target/Rates.h", "lib/Target/Rates.cpp"))
    try:
        fields = re.findall(r"^  (?:int64_t|double) (\w+);", header.read_text(), re.M)
        text = source.read_text()
        row, tensor = re.search(r'\{"H200",([^}]*)\}', text), re.search(r"kWgmmaFlops = ([\d.]+)", text)
        numbers = dict(zip(fields, map(float, row[1].split(",")), strict=True))
        return list({**numbers, "tensorFlops": float(tensor[1])}.items())  # ratesOf() gives wgmma's to targets that have it
    except OSError as error:
        raise Refused(f"{error.filename}: {error.strerror}") from None
    except (TypeError, ValueError):
        raise Refused(f"{source}: no row of an H200 with the fields of {header}") from None


def digits(value):
    return f"{value:.{max(0, 3 - len(str(int(abs(value)))) + 1)}f}" if math.isfinite(value) else "-"


def measure(options):
    standing = stands()
    torch = ends.with_gpu()
    if torch.cuda.get_device_capability() != (9, 0):
        raise Refused("no device of compute capability 9.0")
    try:
        table = open(options.csv, "w", newline="") if options.csv else None
    except OSError as error:
        raise Refused(f"--csv {options.csv}: {error.strerror}") from None
    card, failures = Card(torch), []
    for part in (measure_clock, measure_wgmma, measure_arithmetic, measure_shared, measure_copies, measure_barriers,
                 measure_reductions, measure_pointers, measure_bandwidth, measure_launches):
        try:
            part(card)
        except (RuntimeError, ArithmeticError) as error:
            failures.append(str(error).splitlines()[0])
    failures += [f"{what}: {value:g} {unit} is not positive" for what, unit, value, _, _ in card.rows if not value > 0]
    if table:
        with table:
            csv.writer(table).writerows([("what", "unit", "value", "least", "most"), *card.rows])
    print(f"{card.name}, {card.multiprocessors} multiprocessors, PyTorch {torch.__version__}\n")
    print("\n".join(markdown_rows([("what", "unit", "value", "least", "most"),
                                   *((what, unit, *map(digits, values)) for what, unit, *values in card.rows)])))
    card.measured["multiprocessors"] = card.multiprocessors, "what the driver says"
    cells = []
    for field, value in standing:
        found, what = card.measured.get(field, (None, "not measured"))
        cells.append((field, f"{value:g}", "-" if found is None else digits(found), what))
    print("\n" + "\n".join(markdown_rows([("field of Rates", "Rates.cpp, H200", "measured", "as"), *cells])))
    return ends.status_of(failures)


def assemble(path):
    """What ptxas has against a text; nothing where it is content."""
    done = subprocess.run(["ptxas", "-v", "-arch=sm_90a", path, "-o", path.with_suffix(".cubin")], capture_output=True, text=True)
    bad = [line for line in done.stderr.splitlines() if re.search(r"error|warning|fatal|C75\d\d", line, re.I)]
    if not bad and (done.returncode or " 0 bytes spill stores, 0 bytes spill loads" not in done.stderr):
        bad = ["it spills" if not done.returncode else f"exit status {done.returncode}"]
    return [f"{path}: {line}" for line in bad]


def check_ptx(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{name}.ptx" for name in all_probes()]
        for path, probe in zip(paths, all_probes().values()):
            path.write_text(probe.ptx())
    except OSError as error:
        raise Refused(f"--check-ptx {folder}: {error.strerror}") from None
    if not shutil.which("ptxas"):
        print(f"{len(paths)} kernels in {folder}; ptxas is not on PATH, so they were not assembled")
        return 0
    with ThreadPoolExecutor(2) as pool:
        failures = sum(pool.map(assemble, paths), [])
    if not failures:
        print(f"{len(paths)} kernels in {folder}, assembled by ptxas without a warning or a spill")
    return ends.status_of(failures)


def main(arguments):
    p = argparse.ArgumentParser(prog="latencies.py", description=__doc__, epilog=EPILOG,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--csv", type=Path, metavar="FILE", help="for the rows: what, unit, value, least, most")
    p.add_argument("--check-ptx", type=Path, metavar="DIR", help="write all kernels there, assemble them, and measure nothing")
    options = p.parse_args(arguments)
    try:
        return ends.said("latencies.py", lambda: check_ptx(options.check_ptx) if options.check_ptx else measure(options))
    except RuntimeError as error:
        print(f"latencies.py: error: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
