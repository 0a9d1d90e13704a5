"""Calls on a simulated device, which take the host's memory."""

import ctypes
import os
import random
import unittest

import fa2c
import fake_torch

try:
    import numpy
except ImportError:
    numpy = None

KERNELS = os.environ["FA2_TEST_KERNELS"]
SHAPE = (2, 9, 2, 72)
BYTES = 2 * 9 * 2 * 72 * 2

try:
    DEVICE = fa2c.Device("sim:sm_90")
except fa2c.Error:
    DEVICE = None


def kernel(name):
    with open(os.path.join(KERNELS, name)) as file:
        return file.read()


@unittest.skipIf(DEVICE is None, "this build of the runtime has no simulator")
class OnTheHost(unittest.TestCase):
    def setUp(self):
        self.program = DEVICE.load(kernel("tma_copy.ptx"))
        self.bytes = random.Random(2).randbytes(BYTES)

    def tensors(self):
        """fa2c.tensor of aligned memory, v random and out poisoned, and the memory."""
        made, memory = {}, {}
        for name, content in (("v", self.bytes), ("out", b"\xff" * BYTES)):
            buffer = ctypes.create_string_buffer(BYTES + 16)
            address = -(-ctypes.addressof(buffer) // 16) * 16
            memory[name] = (ctypes.c_char * BYTES).from_buffer(buffer, address - ctypes.addressof(buffer))
            memory[name][:] = content
            made[name] = fa2c.tensor(name, address, "bf16", SHAPE)
        return made, memory

    def test_addresses(self):
        """Also on memory that was not there when the layout was prepared."""
        for _ in range(4):
            tensors, memory = self.tensors()
            self.program(**tensors)
            self.assertEqual(memory["out"][:], self.bytes)

    def test_tensors_of_pytorchs(self):
        fake_torch.install()
        self.addCleanup(fake_torch.remove)
        v, out = fake_torch.Tensor(SHAPE), fake_torch.Tensor(SHAPE)
        v.bytes()[:] = self.bytes
        self.program(v=v, out=out)
        self.assertEqual(out.bytes()[:], self.bytes)
        v.device = fake_torch.device("cuda", 0)
        with self.assertRaisesRegex(fa2c.Error, r"v: the tensor is on cuda:0; a simulated device takes host .*v.cpu"):
            self.program(v=v, out=out)

    def test_what_is_no_argument(self):
        tensors = self.tensors()[0]
        for value in ("x", None, [1], b"x", object()):
            with self.assertRaisesRegex(TypeError, "v: got .*; expected a CPU tensor of PyTorch's or a NumPy array"):
                self.program(**dict(tensors, v=value))


@unittest.skipIf(DEVICE is None, "this build of the runtime has no simulator")
@unittest.skipIf(numpy is None, "NumPy is not installed")
class Arrays(unittest.TestCase):
    """The copy as one of f16, which NumPy has."""

    def setUp(self):
        self.text = kernel("tma_copy.ptx").replace('"dtype": "bf16"', '"dtype": "f16"')
        self.program = DEVICE.load(self.text)

    def arrays(self, shape=SHAPE):
        v = numpy.random.default_rng(4).standard_normal(shape).astype("float16")
        return {"v": v, "out": numpy.full(shape, numpy.nan, "float16")}

    def test_arrays(self):
        for shape in (SHAPE, (1, 30, 3, 72), SHAPE):
            arrays = self.arrays(shape)
            self.program(**arrays)
            numpy.testing.assert_array_equal(arrays["out"], arrays["v"])

    def test_views(self):
        arrays = self.arrays()
        heads_outside = numpy.ascontiguousarray(arrays["v"].transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        self.program(v=heads_outside, out=arrays["out"])
        numpy.testing.assert_array_equal(arrays["out"], arrays["v"])

    def refused(self, error, text, **changes):
        self.program.prepare(**self.arrays())
        with self.assertRaisesRegex(error, text):
            self.program(**dict(self.arrays(), **changes))

    def test_what_is_refused(self):
        v = self.arrays()["v"]
        self.refused(TypeError, r"v: dtype is dtype\('>f2'\); expected", v=v.astype(">f2"))
        self.refused(TypeError, r"v: dtype is dtype\('float64'\); expected", v=v.astype("float64"))
        self.refused(fa2c.Error, r"v: dtype is f32, the kernel was compiled for f16", v=v.astype("float32"))
        self.refused(fa2c.Error, r"v: stride 3 \(the innermost\) is 2; .*\(numpy.ascontiguousarray\(v\)\)",
                     v=numpy.repeat(v, 2, axis=3)[..., ::2])
        record = numpy.zeros(SHAPE, numpy.dtype([("a", "f2"), ("b", "i1")]))
        self.refused(fa2c.Error, r"v: strides are \(.*\) bytes; they must be multiples of an element's 2", v=record["a"])

    def test_read_only_arrays(self):
        out, v = self.arrays()["out"], self.arrays()["v"]
        out.flags.writeable = v.flags.writeable = False
        self.refused(fa2c.Error, "out: the array is read-only, and the kernels write it", out=out)
        arrays = dict(self.arrays(), v=v)  # which is only read
        self.program(**arrays)
        numpy.testing.assert_array_equal(arrays["out"], v)

    def test_arrays_are_not_for_cuda(self):
        program = fa2c.Device("cuda").load(self.text)
        for run in (lambda a: program(**a), program.launch):
            with self.assertRaisesRegex(TypeError, "v: got a NumPy array, which is host memory; expected a PyTorch"):
                run(self.arrays())

    def test_scalars(self):
        program = fa2c.Device("sim").load(kernel("naive_forward.ptx"))
        buffer = ctypes.create_string_buffer(4096)
        shapes = dict(q=(1, 3, 1, 16), k=(1, 3, 1, 16), v=(1, 3, 1, 8), out=(1, 3, 1, 8))
        arguments = {name: fa2c.tensor(name, ctypes.addressof(buffer) + 256 * i, "bf16", shape)
                     for i, (name, shape) in enumerate(shapes.items())}
        for scale in (numpy.float32(0.5), numpy.float64(0.5), numpy.float16(0.5), numpy.array(0.5), numpy.int32(1)):
            lse = numpy.full((1, 1, 3), numpy.nan, "float32")
            program(**arguments, lse=lse, scale=scale)
            numpy.testing.assert_allclose(lse[0, 0], numpy.log([1, 2, 3]), rtol=1e-6)
        with self.assertRaisesRegex(fa2c.Error, "scale: 0 is not positive"):
            program(**arguments, lse=lse, scale=numpy.float32(0))


if __name__ == "__main__":
    unittest.main()
