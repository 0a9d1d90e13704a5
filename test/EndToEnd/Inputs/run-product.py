"""Runs a kernel of one product on the simulator and compares with NumPy.

    run-product.py SOURCE BUILD DEVICE KERNEL.ptx A_ROWS B_ROWS EXPRESSION

The kernel has tensors a and b of bf16 and d of f32, one head and one batch entry each; d, which the expression may use as it
was, has three rows fewer than the result, and what lies behind them must stay.
"""
import glob
import os
import sys

import numpy as np

source, build, device, kernel, a_rows, b_rows, expression = sys.argv[1:]
os.environ["FA2RT_LIBRARY"] = glob.glob(os.path.join(build, "runtime/lib/libfa2rt.so"))[0]
sys.path.insert(0, os.path.join(source, "python"))
import fa2c  # noqa: E402

program = fa2c.Device(device).load(open(kernel).read())
cols = {a["name"]: a["shape"][3] for a in program.manifest["arguments"]}
rng = np.random.default_rng(7)


def bf16(rows, cols):
    """Random numbers that bf16 holds exactly, as f32 and as bits."""
    bits = rng.normal(size=(rows, cols)).astype(np.float32).view(np.uint32) & 0xFFFF0000
    return bits.view(np.float32), (bits >> 16).astype(np.uint16)


a, a_bits = bf16(int(a_rows), cols["a"])
b, b_bits = bf16(int(b_rows), cols["b"])
names = {"a": a.astype(np.float64), "b": b.astype(np.float64), "d": 0.0}
before = rng.normal(size=np.shape(eval(expression, names))).astype(np.float32)
expected = eval(expression, {**names, "d": before.astype(np.float64)})
rows = len(before) - 3
memory = before.copy()


def tensor(name, array, dtype, rows):
    return fa2c.tensor(name, array.ctypes.data, dtype, (1, rows, 1, array.shape[1]))


program(a=tensor("a", a_bits, "bf16", len(a)), b=tensor("b", b_bits, "bf16", len(b)), d=tensor("d", memory, "f32", rows))
error = np.abs(memory[:rows] - expected[:rows]).max()
scale = np.abs(expected).max()
print(f"largest error {error:.2e} of {scale:.2e}")
sys.exit(not (error < 1e-5 * scale and (memory[rows:] == before[rows:]).all()))
