#!/usr/bin/env python3
"""What wgmma alone reaches on this card at the power it may draw: the multiplications of attention at head dim 128,
nothing else, on random normal operands. See --help."""

import argparse
import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fa2bench import options as command_line  # noqa: E402

EPILOG = """\
Three warpgroups a block and one block a multiprocessor multiply 64 x 64 tiles over 128 columns (S = Q K^T) and 64 x 128
tiles over 64 (O += P V), from shared memory that is filled once. The card lowers its clock where the multipliers draw
more power than it may, and what they draw depends on the operands' bits: f16 on values rounded to bf16's 8 bits
("f16 rounded") runs as bf16 does, f16 on others slower. A kernel that loads its multipliers well loses as much.
exit status: 0; 1 when the driver refused or a sum was not written; 2 where there is no sm_90 device or no PyTorch.
"""

GROUPS, ROWS, KEYS, DIM, STEP = 3, 64, 64, 128, 16
QUERY_BYTES, KEY_BYTES = 2 * ROWS * DIM, 2 * KEYS * DIM
FILL_BYTES = GROUPS * 128 * 16  # by all threads at once
FILLS = -(-(GROUPS * QUERY_BYTES + 2 * KEY_BYTES) // FILL_BYTES)
LEADING, STRIDE = 16, 1024  # bytes between core matrices, 128-byte swizzle


def descriptor(name, address, leading):
    """The shared-memory matrix at `address` (PTX ISA, "Matrix Descriptor Format")."""
    return f"""
  and.b32 %t, {address}, 0x3ffff;
  shr.u32 %t, %t, 4;
  cvt.u64.u32 {name}, %t;
  or.b64 {name}, {name}, {leading >> 4 << 16 | STRIDE >> 4 << 32 | 1 << 62};"""


def registers(prefix, count):
    return "{" + ", ".join(f"%{prefix}{i}" for i in range(count)) + "}"


def panel_offset(step):
    """Of the step-th 16 columns of a tile of 64 rows in panels of 64 columns."""
    return step // 4 * ROWS * 128 + step % 4 * 2 * STEP


def ptx(dtype):
    scores, out = KEYS // 2, DIM // 2
    body = ["  wgmma.fence.sync.aligned;"]
    for step in range(DIM // STEP):
        body += [f"  add.s64 %a, %q, {panel_offset(step) >> 4};", f"  add.s64 %b, %k, {panel_offset(step) >> 4};",
                 f"  wgmma.mma_async.sync.aligned.m64n{KEYS}k16.f32.{dtype}.{dtype} {registers('s', scores)}, "
                 "%a, %b, p, 1, 1, 0, 0;"]
    body.append("  wgmma.commit_group.sync.aligned;")
    for step in range(KEYS // STEP):
        operand = "{" + ", ".join(f"%p{4 * step + i}" for i in range(4)) + "}"
        body += [f"  add.s64 %b, %v, {step * STEP * 128 >> 4};",
                 f"  wgmma.mma_async.sync.aligned.m64n{DIM}k16.f32.{dtype}.{dtype} {registers('o', out)}, "
                 f"{operand}, %b, p, 1, 1, 1;"]
    body += ["  wgmma.commit_group.sync.aligned;", "  wgmma.wait_group.sync.aligned 0;"]
    loads = "\n".join(f"  ld.global.u32 %p{i}, [%g + {512 * 16 + i * GROUPS * 512}];" for i in range(KEYS // 4))
    adds = "\n".join(f"  add.f32 %sum, %sum, %{p}{i};" for p, n in (("s", scores), ("o", out)) for i in range(n))
    zeros = "\n".join(f"  mov.f32 %{p}{i}, 0f00000000;" for p, n in (("s", scores), ("o", out)) for i in range(n))
    return f"""
.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 shared[];
.visible .entry wgmma_alone(.param .u64 values, .param .u64 sums, .param .u32 count)
.reqntid {GROUPS * 128}
{{
  .reg .pred p, more;
  .reg .b32 %t, %thread, %group, %i, %n, %to, %base, %x<4>, %p<{KEYS // 4}>;
  .reg .b64 %q, %k, %v, %a, %b, %g, %from, %w;
  .reg .f32 %sum, %s<{scores}>, %o<{out}>;
  ld.param.u64 %from, [values];
  cvta.to.global.u64 %from, %from;
  ld.param.u32 %n, [count];
  mov.u32 %thread, %tid.x;
  mov.u32 %base, shared;
  mul.wide.u32 %w, %thread, 16;
  add.s64 %g, %from, %w;
  mov.u32 %i, 0;
FILL:
  mul.wide.u32 %w, %i, {FILL_BYTES};
  add.s64 %w, %w, %g;
  ld.global.v4.u32 {{%x0, %x1, %x2, %x3}}, [%w];
  mad.lo.u32 %to, %i, {FILL_BYTES}, %base;
  mad.lo.u32 %to, %thread, 16, %to;
  st.shared.v4.u32 [%to], {{%x0, %x1, %x2, %x3}};
  add.u32 %i, %i, 1;
  setp.lt.u32 more, %i, {FILLS};
  @more bra FILL;
{loads}
{zeros}
  fence.proxy.async;
  bar.sync 0;
  shr.u32 %group, %thread, 7;
  mad.lo.u32 %to, %group, {QUERY_BYTES}, %base;
{descriptor("%q", "%to", LEADING)}
  add.u32 %to, %base, {GROUPS * QUERY_BYTES};
{descriptor("%k", "%to", LEADING)}
  add.u32 %to, %to, {KEY_BYTES};
{descriptor("%v", "%to", KEYS * 128)}
  setp.eq.u32 p, 0, 0;
LOOP:
{chr(10).join(body)}
  sub.u32 %n, %n, 1;
  setp.ne.u32 more, %n, 0;
  @more bra LOOP;
  mov.f32 %sum, 0f00000000;
{adds}
  ld.param.u64 %w, [sums];
  cvta.to.global.u64 %w, %w;
  mov.u32 %t, %ctaid.x;
  mad.lo.u32 %t, %t, {GROUPS * 128}, %thread;
  mul.wide.u32 %a, %t, 4;
  add.s64 %w, %w, %a;
  st.global.f32 [%w], %sum;
  ret;
}}
"""


class Kernel:
    """The kernel of one dtype on its values; `launch` counts as a contestant's does."""

    def __init__(self, driver, dtype, values, blocks, count):
        import torch
        self.driver, self.blocks, self.values = driver, blocks, values
        self.sums = torch.full((blocks * GROUPS * 128,), float("nan"), device="cuda")
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.shared = FILLS * FILL_BYTES
        self.check(driver.cuModuleLoadData(ctypes.byref(self.module), ptx(dtype).encode()))
        self.check(driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, b"wgmma_alone"))
        self.check(driver.cuFuncSetAttribute(self.function, 8, self.shared))  # the most dynamic shared memory
        parameters = (ctypes.c_uint64(values.data_ptr()), ctypes.c_uint64(self.sums.data_ptr()), ctypes.c_uint32(count))
        self.parameters = (ctypes.c_void_p * 3)(*(ctypes.addressof(p) for p in parameters))
        self.keep = parameters

    @staticmethod
    def check(status):
        if status:
            raise RuntimeError(f"the driver refused with error {status}")

    def launch(self, _):
        import torch
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.check(self.driver.cuLaunchKernel(self.function, self.blocks, 1, 1, GROUPS * 128, 1, 1, self.shared,
                                              stream, self.parameters, None))


def measure(arguments):
    p = argparse.ArgumentParser(prog="roofline.py", description=__doc__, epilog=EPILOG,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seconds", type=command_line.seconds, default=5.0)
    p.add_argument("--pause", type=command_line.milliseconds, default=60.0, metavar="MS")
    p.add_argument("--iterations", type=command_line.positive, default=2000, help="64 keys each")
    options = p.parse_args(arguments)
    try:
        import torch
    except ImportError:
        print("roofline.py: error: PyTorch is not installed", file=sys.stderr)
        return 2
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("roofline.py: error: no device of compute capability 9.0", file=sys.stderr)
        return 2
    from fa2bench.measure import Contestant, interleave
    normal = torch.randn(1 << 20, device="cuda", generator=torch.Generator(device="cuda").manual_seed(0))
    driver, blocks = ctypes.CDLL("libcuda.so.1"), torch.cuda.get_device_properties(0).multi_processor_count
    contestants = []
    for name, dtype, values in (("bf16", "bf16", normal.bfloat16()), ("f16", "f16", normal.half()),
                                ("f16 rounded", "f16", normal.bfloat16().half())):
        kernel = Kernel(driver, dtype, values, blocks, options.iterations)
        kernel.launch(0)
        torch.cuda.synchronize()
        if not bool(torch.isfinite(kernel.sums).all()):
            raise RuntimeError(f"{name}: sums were not written, or are not finite")
        contestants.append(Contestant(name, kernel.launch, 1))
    interleave(contestants, options.seconds, options.pause)
    flops = blocks * GROUPS * options.iterations * 4 * ROWS * KEYS * DIM
    for c in contestants:
        print(f"{c.label:12} {flops / c.median / 1e9:6.1f} TFLOP/s, {contestants[0].median / c.median:.3f} of bf16")
    return 0


def main(arguments):
    try:
        return measure(arguments)
    except RuntimeError as error:
        print(f"roofline.py: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
