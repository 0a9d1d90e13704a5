"""The ctypes binding, on the fake driver (CMakeLists.txt sets the paths)."""

import ctypes
import math
import os
import unittest
import unittest.mock
from fractions import Fraction

import fa2c

BF16_ONE = 0x3F80
KERNEL = os.path.join(os.environ["FA2_TEST_KERNELS"], "naive_forward.ptx")


class Binding(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.device = fa2c.Device("cuda:1")
        with open(KERNEL) as file:
            cls.program = cls.device.load(file.read())

    def arguments(self):
        """Every input is 1; 5 queries on 4 keys: row 0 sees none."""
        self.ones = (ctypes.c_uint16 * 4096)(*([BF16_ONE] * 4096))
        self.out = (ctypes.c_uint16 * 80)(*([0xFFFF] * 80))
        self.lse = (ctypes.c_float * 10)(*([math.nan] * 10))
        at = ctypes.addressof
        return {
            "q": fa2c.tensor("q", at(self.ones), "bf16", (1, 5, 2, 16)),
            "k": fa2c.tensor("k", at(self.ones), "bf16", (1, 4, 1, 16), (64, 16, 16, 1)),
            "v": fa2c.tensor("v", at(self.ones), "bf16", (1, 4, 1, 8)),
            "out": fa2c.tensor("out", at(self.out), "bf16", (1, 5, 2, 8)),
            "lse": fa2c.tensor("lse", at(self.lse), "f32", (1, 2, 5)),
            "scale": 0.5,
        }

    def test_properties(self):
        self.assertEqual(self.device.properties()["name"], "Fake GPU")
        self.assertEqual(self.device.properties()["ordinal"], 1)
        self.assertFalse(self.program.workspace_zeroed())
        self.assertEqual(self.program.kernels()[0]["registers"], 40)
        self.assertEqual(self.program.manifest["specification"]["head_dim"], 16)
        self.assertRegex(fa2c.version(), r"^\d+\.\d+\.\d+$")

    def test_launch(self):
        arguments = self.arguments()
        self.assertEqual(self.program.workspace_size(**arguments), 0)
        self.assertEqual(self.program.runs(**arguments), [self.program.kernels()[0]["name"]])
        self.program.launch(arguments)
        self.device.synchronize()
        self.assertEqual(list(self.out), [0] * 16 + [BF16_ONE] * 64)
        # log(keys) + 0.5 * 16
        for row, value in enumerate(self.lse):
            keys = row % 5
            self.assertAlmostEqual(value, math.log(keys) + 8 if keys else -math.inf, places=5)
        self.assertEqual(len(self.program.measure(arguments, 3)), 3)

    def test_scalars_of_any_kind(self):
        for scale in (1, Fraction(1, 2), 0.5):
            self.program.launch(dict(self.arguments(), scale=scale))
            self.device.synchronize()
            self.assertAlmostEqual(self.lse[1], 16 * float(scale), places=5)
        for scale in (1j, "1", None, [1.0]):
            with self.assertRaisesRegex(TypeError, f"scale: got {type(scale).__name__}; expected"):
                self.program.launch(dict(self.arguments(), scale=scale))

    def test_host_memory(self):
        """What the driver does not know is refused."""
        with unittest.mock.patch.dict(os.environ, FAKE_CUDA_OWN="1"):
            with self.assertRaisesRegex(fa2c.Error, "q: the address 0x.* is host memory that Fake GPU does not reach"):
                self.program.launch(self.arguments())

    def test_errors(self):
        with self.assertRaisesRegex(fa2c.Error, "scale: -1 is not positive") as caught:
            self.program.launch(dict(self.arguments(), scale=-1.0))
        self.assertEqual(caught.exception.status, 1)
        with self.assertRaisesRegex(fa2c.Error, "no argument 'z'"):
            self.program.launch(dict(self.arguments(), z=1))
        with self.assertRaisesRegex(TypeError, "q: got str; expected a PyTorch tensor on cuda:1"):
            self.program.launch(dict(self.arguments(), q="x"))
        with self.assertRaisesRegex(TypeError, r"q: got the fa2c.tensor\(...\) named 'k'"):
            self.program.launch(dict(self.arguments(), q=self.arguments()["k"]))
        with self.assertRaisesRegex(ValueError, "dtype is 'f8'"):
            fa2c.tensor("q", 0, "f8", (1,))
        with self.assertRaisesRegex(ValueError, "q: 1 strides are given for 2 extents"):
            fa2c.tensor("q", 0, "bf16", (1, 2), (1,))
        with self.assertRaisesRegex(fa2c.Error, "no manifest"):
            self.device.load(".version 7.0\n")
        with self.assertRaisesRegex(fa2c.Error, "no device is named 'gpu'"):
            fa2c.Device("gpu")


if __name__ == "__main__":
    unittest.main()
