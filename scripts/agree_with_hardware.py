#!/usr/bin/env python3
"""Compares the simulator with a GPU, instruction by instruction.

    python3 scripts/agree_with_hardware.py --cli BUILD/fa2-sim-cli [--quick] [--only TEXT] [--part K/N] [--json FILE]

Each kernel applies one instruction to vectors of inputs: random bit patterns, normal data, and
special values (zeros, subnormals, infinities, NaN, the largest and smallest numbers). It runs on
the GPU through the CUDA driver (libcuda by ctypes, no other library than numpy) and on fa2-sim-cli
with the GPU's capability. Exact instructions and matrix products must agree bit for bit;
approximations (ex2, lg2, rcp, ...) over all 2^32 inputs (--quick: 2^24 of them) must stay inside the
manual's bound of the simulator's value, and the largest difference is printed.

The exit status is 1 when anything disagrees.
"""
import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

RNG = np.random.default_rng(20240607)


# --- The driver -------------------------------------------------------------------------------

class Device:
    def __init__(self):
        self.cu = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
        self.call("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
        self.capability = major.value * 10 + minor.value
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        status = getattr(self.cu, name)(*args)
        if status:
            text = ctypes.c_char_p()
            self.cu.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {text.value.decode() if text.value else status}")

    def run(self, ptx, kernel, grid, block, inputs, output_bytes):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(ptx.encode()))
        self.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        pointers = []
        for data in inputs + [np.full(output_bytes, 0xFF, np.uint8)]:
            pointer = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(data.nbytes, 16)))
            self.call("cuMemcpyHtoD_v2", pointer, data.ctypes.data_as(ctypes.c_void_p),
                      ctypes.c_size_t(data.nbytes))
            pointers.append(pointer)
        args = (ctypes.c_void_p * len(pointers))(*[ctypes.addressof(p) for p in pointers])
        self.call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, 0, None, args, None)
        self.call("cuCtxSynchronize")
        result = np.empty(output_bytes, np.uint8)
        self.call("cuMemcpyDtoH_v2", result.ctypes.data_as(ctypes.c_void_p), pointers[-1],
                  ctypes.c_size_t(output_bytes))
        for pointer in pointers:
            self.call("cuMemFree_v2", pointer)
        self.call("cuModuleUnload", module)
        return result

    def sweep(self, kernel, start, count, path, threads):
        """Launches a kernel (start, out) of `count` threads and leaves what it wrote in a file."""
        module, function, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        with open(kernel) as file:
            self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(file.read().encode()))
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        self.call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(4 * count))
        first = ctypes.c_uint32(start)
        args = (ctypes.c_void_p * 2)(ctypes.addressof(first), ctypes.addressof(out))
        self.call("cuLaunchKernel", function, count // 256, 1, 1, 256, 1, 1, 0, None, args, None)
        values = np.memmap(path, np.uint32, "w+", shape=(count,))
        self.call("cuMemcpyDtoH_v2", values.ctypes.data_as(ctypes.c_void_p), out, ctypes.c_size_t(4 * count))
        self.call("cuMemFree_v2", out)
        self.call("cuModuleUnload", module)


class Simulator:
    def __init__(self, cli, capability):
        self.cli, self.capability = cli, capability

    def run(self, ptx, kernel, grid, block, inputs, output_bytes):
        with tempfile.TemporaryDirectory() as folder:
            def path(name):
                return os.path.join(folder, name)
            with open(path("k.ptx"), "w") as file:
                file.write(ptx)
            command = [self.cli, path("k.ptx"), kernel, "--grid", str(grid), "--block", str(block),
                       "--capability", str(self.capability), "--no-checks"]
            for k, data in enumerate(inputs):
                data.tofile(path(f"in{k}"))
                command += ["--in", path(f"in{k}")]
            command += ["--out", f"{path('out')}:{output_bytes}"]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr)
            return np.fromfile(path("out"), np.uint8)

    def sweep_command(self, kernel, start, count, stride, threads):
        return [self.cli, kernel, "k", "--block", "256", "--capability", str(self.capability), "--no-checks",
                "--resident", "1", "--sweep", f"{start}:{count}:{stride}", "--threads", str(threads)]

    def sweep(self, kernel, start, count, path, threads):
        subprocess.run(self.sweep_command(kernel, start, count, 1, threads) + ["--write", path], check=True)


# --- Kernels ----------------------------------------------------------------------------------

def header(capability):
    return (".version 8.0\n.target sm_90a\n" if capability >= 90 else ".version 7.0\n.target sm_80\n") + \
        ".address_size 64\n"


def elementwise(capability, instruction, sources, wide=False):
    """out[i] = instruction(in0[i], in1[i], ...); 32-bit words; a0, a1, a2 -> d."""
    params = ", ".join(f".param .u64 p{k}" for k in range(sources + 1))
    loads = "".join(f"ld.param.u64 %rd1, [p{k}];\nadd.s64 %rd1, %rd1, %rd0;\nld.global.b32 a{k}, [%rd1];\n"
                    for k in range(sources))
    return header(capability) + f""".visible .entry k({params})
{{
.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .b32 a0, a1, a2, d; .reg .b16 h0, h1; .reg .pred p;
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
mad.lo.u32 %r3, %r0, %r1, %r2; mul.wide.u32 %rd0, %r3, 4;
{loads}{instruction}
ld.param.u64 %rd1, [p{sources}]; add.s64 %rd1, %rd1, %rd0; st.global.b32 [%rd1], d;
ret;
}}
"""


def sweep(capability, instruction, stride):
    """out[i] = instruction((start + i) * stride) for every thread i."""
    return header(capability) + f""".visible .entry k(.param .u32 start, .param .u64 out)
{{
.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .b32 x, d;
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
ld.param.u32 %r4, [start]; add.u32 x, %r3, %r4; mul.lo.u32 x, x, {stride};
{instruction} d, x;
ld.param.u64 %rd1, [out]; mul.wide.u32 %rd0, %r3, 4; add.s64 %rd1, %rd1, %rd0; st.global.b32 [%rd1], d;
ret;
}}
"""


def mma(capability, shape, kind):
    """One m16n8k{8,16} a warp: inputs a and b registers of each lane, c four words; d four words."""
    na, nb = (2, 1) if shape == 8 else (4, 2)
    def vector(name, n):
        return "{" + ",".join(f"{name}{k}" for k in range(n)) + "}"
    def load(name, n, param):
        lines = f"ld.param.u64 %rd1, [{param}]; mad.wide.u32 %rd1, %r3, {4 * n}, %rd1;\n"
        return lines + "".join(f"ld.global.b32 {name}{k}, [%rd1+{4 * k}];\n" for k in range(n))
    b = vector("b", nb) if nb > 1 else "{b0}"
    return header(capability) + f""".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
{{
.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .b32 a<4>, b<2>; .reg .f32 c<4>, d<4>;
mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
{load("a", na, "pa")}{load("b", nb, "pb")}{load("c", 4, "pc")}
mma.sync.aligned.m16n8k{shape}.row.col.f32.{kind}.{kind}.f32 {vector("d", 4)}, {vector("a", na)}, {b}, {vector("c", 4)};
ld.param.u64 %rd1, [pd]; mad.wide.u32 %rd1, %r3, 16, %rd1;
st.global.v4.f32 [%rd1], {vector("d", 4)};
ret;
}}
"""


def wgmma(kind):
    """m64n8k16 a block: A from registers, B (8 rows of 16, K-major, 32-byte swizzle) from shared memory."""
    return header(90) + f""".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
.maxntid 128
{{
.reg .b64 %rd<8>; .reg .b32 %r<16>; .reg .b32 a<4>; .reg .f32 d<4>; .reg .pred p, q;
.shared .align 1024 .b8 tile[256];
mov.u32 %r0, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, 128, %r2;
ld.param.u64 %rd1, [pa]; mad.wide.u32 %rd1, %r3, 16, %rd1;
ld.global.v4.b32 {{a0,a1,a2,a3}}, [%rd1];
ld.param.u64 %rd1, [pc]; mad.wide.u32 %rd1, %r3, 16, %rd1;
ld.global.v4.f32 {{d0,d1,d2,d3}}, [%rd1];
// word t of B goes to byte 4t, bit 7 added to bit 4
setp.lt.u32 p, %r2, 64; shl.b32 %r4, %r2, 2; and.b32 %r5, %r4, 128; shr.u32 %r5, %r5, 3; xor.b32 %r4, %r4, %r5;
mov.u32 %r6, tile; add.u32 %r4, %r4, %r6;
mad.lo.u32 %r7, %r0, 64, %r2; ld.param.u64 %rd1, [pb]; mad.wide.u32 %rd1, %r7, 4, %rd1;
@p ld.global.b32 %r8, [%rd1];
@p st.shared.b32 [%r4], %r8;
fence.proxy.async.shared::cta;
bar.sync 0;
shr.u32 %r9, %r6, 4; cvt.u64.u32 %rd2, %r9; or.b64 %rd2, %rd2, 0xC000001000000000;
setp.eq.u32 q, %r6, %r6;
wgmma.fence.sync.aligned;
wgmma.mma_async.sync.aligned.m64n8k16.f32.{kind}.{kind} {{d0,d1,d2,d3}}, {{a0,a1,a2,a3}}, %rd2, q, 1, 1, 0;
wgmma.commit_group.sync.aligned;
wgmma.wait_group.sync.aligned 0;
ld.param.u64 %rd1, [pd]; mad.wide.u32 %rd1, %r3, 16, %rd1;
st.global.v4.f32 [%rd1], {{d0,d1,d2,d3}};
ret;
}}
"""


# --- Inputs -----------------------------------------------------------------------------------

SPECIAL32 = np.array([0, 0x80000000, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
                      0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345, 0x3F800000, 0xBF800000, 0x3F7FFFFF,
                      0x4B000000, 0xCB000001, 0x477FE000, 0x477FF000, 0x33000000, 0x33000001, 0x38800000], np.uint32)


def floats(n):
    """A third random bits, a third normal data, a third of special values."""
    third = n // 3
    parts = [RNG.integers(0, 1 << 32, third, dtype=np.uint32),
             RNG.standard_normal(third).astype(np.float32).view(np.uint32),
             RNG.choice(SPECIAL32, n - 2 * third)]
    data = np.concatenate(parts)
    RNG.shuffle(data)
    return data


def integers(n):
    data = RNG.integers(0, 1 << 32, n, dtype=np.uint32)
    small = RNG.integers(0, 40, n, dtype=np.uint32)
    return np.where(RNG.random(n) < 0.4, small, data)


def halves(n, kind, style):
    if style == 0:
        return RNG.integers(0, 1 << 16, n, dtype=np.uint16)
    scale = np.exp2(RNG.integers(-12, 12, n)) if style == 2 else 1.0
    x = (RNG.standard_normal(n) * scale).astype(np.float32)
    if style == 3:
        x[RNG.random(n) < 0.4] = 0
    if kind == "f16":
        return x.astype(np.float16).view(np.uint16)
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def finite(data, kind):
    """Replaces NaN and infinity, so that most matrix elements stay numbers."""
    mask = np.uint16(0x7C00 if kind == "f16" else 0x7F80)
    return np.where((data & mask) == mask, data & np.uint16(0x80FF & ~mask | 0x0001), data)


# --- Comparisons ------------------------------------------------------------------------------

EXACT = [
    ("add.rn.f32", 2), ("sub.rn.f32", 2), ("mul.rn.f32", 2), ("fma.rn.f32", 3), ("add.rn.ftz.f32", 2),
    ("mul.rn.ftz.f32", 2), ("fma.rn.ftz.f32", 3), ("min.f32", 2), ("max.f32", 2), ("max.NaN.f32", 2), ("min.NaN.f32", 2),
    ("div.rn.f32", 2), ("rcp.rn.f32", 1), ("sqrt.rn.f32", 1), ("add.rn.f16x2", 2), ("mul.rn.f16x2", 2),
    ("fma.rn.f16x2", 3), ("fma.rn.bf16x2", 3), ("max.f16x2", 2), ("max.NaN.bf16x2", 2),
    ("cvt.rn.bf16x2.f32", 2), ("cvt.rn.f16x2.f32", 2), ("cvt.rz.bf16x2.f32", 2), ("cvt.rn.relu.f16x2.f32", 2),
    ("cvt.rni.s32.f32", 1), ("cvt.rzi.u32.f32", 1), ("cvt.rmi.s32.f32", 1), ("cvt.rni.f32.f32", 1),
    ("cvt.rn.f32.s32", 1), ("cvt.rz.f32.u32", 1),
    ("mul.hi.s32", 2), ("mul.hi.u32", 2), ("mad.lo.s32", 3), ("shf.l.wrap.b32", 3), ("shf.r.clamp.b32", 3),
    ("bfe.u32", 3), ("bfe.s32", 3), ("prmt.b32", 3), ("shl.b32", 2), ("shr.s32", 2), ("bfind.s32", 1), ("clz.b32", 1),
]
# With the manual's bound in ulp, or lg2's.
APPROXIMATE = [("ex2.approx.ftz.f32", "2"), ("lg2.approx.f32", "lg2"), ("lg2.approx.ftz.f32", "lg2"),
               ("rcp.approx.ftz.f32", "1"), ("ex2.approx.f32", "2"), ("rsqrt.approx.f32", "2"), ("sqrt.approx.f32", "2")]
SWEEP = 1 << 28  # inputs of one launch: 1 GiB of results


def compare_sweep(device, simulator, name, bound, start, count, stride, threads):
    """The device's values of count inputs, stride apart, against the simulator's (fa2-sim-cli --sweep)."""
    memory = "/dev/shm"
    fits = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 5 * count
    with tempfile.TemporaryDirectory(dir=memory if fits else None) as folder:
        kernel, values = os.path.join(folder, "k.ptx"), os.path.join(folder, "values")
        with open(kernel, "w") as file:
            file.write(sweep(simulator.capability, name, stride))
        device.sweep(kernel, start, count, values, threads)
        command = simulator.sweep_command(kernel, start, count, stride, threads) + ["--against", values, "--bound", bound]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cli", required=True, help="path of fa2-sim-cli")
    parser.add_argument("--quick", action="store_true", help="2^24 inputs of each approximation, 2^16 of the rest")
    parser.add_argument("--only", default="", help="instructions that contain this text")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of the sweeps over all inputs")
    parser.add_argument("--part", default="0/1", help="K/N: the Kth of N parts of each sweep, from 0")
    parser.add_argument("--json", help="write the results here")
    parser.add_argument("--self-test", action="store_true", help="compare the simulator with itself, no GPU needed")
    parser.add_argument("--capability", type=int, default=90, help="with --self-test")
    args = parser.parse_args()
    args.part, args.parts = (int(x) for x in args.part.split("/"))

    if args.self_test:
        simulated = args.capability
        device = Simulator(args.cli, simulated)
    else:
        device = Device()
        simulated = 90 if device.capability >= 90 else 80
    simulator = Simulator(args.cli, simulated)
    results, failed = [], False

    def both(ptx, grid, block, inputs, output_bytes):
        inputs = [np.ascontiguousarray(x).view(np.uint8) for x in inputs]
        return [where.run(ptx, "k", grid, block, inputs, output_bytes).view(np.uint32) for where in (device, simulator)]

    def note(name, count, different, example, detail=""):
        nonlocal failed
        failed |= different > 0
        results.append(dict(instruction=name, inputs=int(count), different=int(different), detail=detail))
        print(f"{'ok  ' if not different else 'FAIL'} {name}: {count} results, {different} differ{detail}"
              + (f", e.g. {example}" if different else ""), flush=True)

    n = 1 << 16 if args.quick else 1 << 20
    for name, sources in EXACT:
        if args.only not in name:
            continue
        draw = integers if name.split(".")[-1] in ("s32", "u32", "b32") and "f32" not in name else floats
        if name.startswith("cvt.r") and name.endswith(("s32", "u32")):
            draw = integers
        inputs = [draw(n) for _ in range(sources)]
        if "f16x2" in name and not name.startswith("cvt"):
            inputs = [RNG.integers(0, 1 << 32, n, dtype=np.uint32) for _ in range(sources)]
        text = f"{name} d, " + ", ".join(f"a{k}" for k in range(sources)) + ";"
        gpu, sim = both(elementwise(simulated, text, sources), n // 128, 128, inputs, 4 * n)
        bad = np.flatnonzero(gpu != sim)
        example = "" if not len(bad) else " ".join(f"{x[bad[0]]:08x}" for x in inputs) + \
            f" -> gpu {gpu[bad[0]]:08x} sim {sim[bad[0]]:08x}"
        note(name, n, len(bad), example)

    for name, bound in APPROXIMATE:
        if args.only not in name:
            continue
        total = 1 << (24 if args.quick else 32)
        begin, end = (total * k // args.parts for k in (args.part, args.part + 1))
        sums = dict(different=0, beyond=0, worst=0.0, example="")
        for start in range(begin, end, SWEEP):
            found = compare_sweep(device, simulator, name, bound, start, min(SWEEP, end - start),
                                  256 if args.quick else 1, args.threads)
            for key in ("different", "beyond"):
                sums[key] += found[key]
            sums["worst"] = max(sums["worst"], found["worst"])
            sums["example"] = sums["example"] or found["example"]
        note(name, end - begin, sums["beyond"], sums["example"], f" beyond the bound; {sums['different']} are not equal, "
             f"largest difference {sums['worst']:g} {'2^-22' if bound == 'lg2' else 'ulp'}")

    warps = 1 << 9 if args.quick else 1 << 13  # 2^13 warps: 2^20 dot products
    for kind in ("bf16", "f16"):
        for shape in (8, 16):
            name = f"mma.sync.m16n8k{shape}.f32.{kind}"
            for style in range(4):
                if args.only not in name:
                    continue
                na, nb = (2, 1) if shape == 8 else (4, 2)
                a = finite(halves(warps * 32 * na * 2, kind, style), kind) if style else halves(warps * 32 * na * 2, kind, 0)
                b = finite(halves(warps * 32 * nb * 2, kind, style), kind)
                c = floats(warps * 128) if style == 0 else RNG.standard_normal(warps * 128).astype(np.float32).view(np.uint32)
                gpu, sim = both(mma(simulated, shape, kind), warps // 4, 128, [a, b, c], warps * 512)
                bad = np.flatnonzero(gpu != sim)
                note(f"{name} (data {style})", warps * 128, len(bad),
                     "" if not len(bad) else f"element {bad[0]}: gpu {gpu[bad[0]]:08x} sim {sim[bad[0]]:08x}")
        if simulated >= 90:
            name = f"wgmma.m64n8k16.f32.{kind}"
            for style in range(4):
                if args.only not in name:
                    continue
                blocks = warps // 4
                a = finite(halves(blocks * 128 * 8, kind, style), kind) if style else halves(blocks * 128 * 8, kind, 0)
                b = finite(halves(blocks * 128, kind, style), kind)
                c = floats(blocks * 512) if style == 0 else RNG.standard_normal(blocks * 512).astype(np.float32).view(np.uint32)
                gpu, sim = both(wgmma(kind), blocks, 128, [a, b, c], blocks * 2048)
                bad = np.flatnonzero(gpu != sim)
                note(f"{name} (data {style})", blocks * 512, len(bad),
                     "" if not len(bad) else f"element {bad[0]}: gpu {gpu[bad[0]]:08x} sim {sim[bad[0]]:08x}")

    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file, indent=1)
    print("all agree" if not failed else "DISAGREEMENTS")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
