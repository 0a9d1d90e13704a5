"""Calls whose tensors the runtime reads itself, by DLPack's C exchange functions."""

import ctypes
import gc
import os
import sys
import unittest
import weakref
from unittest import mock

import fa2c
import fake_torch
import python_call_test as calls
from fa2c import prepared, runtime

# A C function that refuses what is no list as an exchange function does: -1 and Python's exception.
RAISES = ctypes.pythonapi.PyList_Append


class Attention(calls.Attention):
    """Everything that is so where Python reads the tensors is so here."""

    exchanges = True
    test_a_prepared_call_costs_the_host_little = None  # the fake's functions are written in Python


class TensorMaps(calls.TensorMaps):
    exchanges = True


class Exchange(calls.AttentionCase):
    exchanges = True

    def call(self, reads, asked, **arguments):
        """Calls, checks the result, how many tensors the runtime read, and whether attributes were asked."""
        arguments = arguments or self.arguments()
        before, asked_before = fake_torch.Tensor.reads, fake_torch.Tensor.strides_asked
        self.program(**arguments)
        got = fake_torch.Tensor.reads - before, fake_torch.Tensor.strides_asked > asked_before
        self.check(arguments, arguments.get("scale", 0.25))
        self.assertEqual(got, (reads, asked))

    def test_attributes_are_asked_once(self):
        self.program.prepare(**self.arguments())
        for stream in (0, 0xABC):
            self.torch.state.stream[1] = stream
            self.call(5, False)
            self.assertEqual(calls.driver().fakeCudaStream() or 0, stream)
        self.call(5, True, **self.arguments(queries=6))  # read, and found to be another layout
        self.call(5, False, **self.arguments(queries=6))

    def test_layouts_take_turns(self):
        for queries in (5, 6, 7):
            self.program.prepare(**self.arguments(queries))
        for queries in (5, 6, 7, 7, 6, 5):
            self.call(5, False, **self.arguments(queries))

    def test_the_latest_layouts_are_direct(self):
        with mock.patch.object(prepared.DirectCalls, "MOST", 2), mock.patch.object(runtime, "_MOST_PREPARED", 1):
            for queries in (5, 6, 7):
                self.program.prepare(**self.arguments(queries))
            gc.collect()
            self.call(5, False, **self.arguments(6))
            self.call(5, False, **self.arguments(7))
            self.call(5, True, **self.arguments(5))
            self.call(5, False, **self.arguments(5))
            self.call(5, False, **self.arguments(7))

    def test_the_order_of_names(self):
        arguments = self.arguments()
        turned = {name: arguments[name] for name in reversed(arguments)}
        self.program.prepare(**arguments)
        self.program.prepare(**turned)
        self.call(5, False, **turned)
        self.call(0, True, **arguments)  # the latest is another order
        self.call(5, False, **arguments)

    def test_numbers(self):
        self.program.prepare(**self.arguments(scale=0.5))
        self.call(5, False, **self.arguments(scale=float("0.5")))  # another object
        self.call(0, True, **self.arguments(scale=0.25))
        self.call(5, False, **self.arguments(scale=0.25))
        self.call(0, True, **self.arguments(scale=1))
        self.call(0, True, **self.arguments(scale=1.0))
        self.call(0, True, **self.arguments(scale=True))  # which never is
        self.call(0, True, **self.arguments(scale=0.5))
        self.call(0, True, **self.arguments())
        with self.assertRaisesRegex(fa2c.Error, "scale: nan is not a finite f32"):
            self.program(**self.arguments(scale=float("nan")))

    def test_zeros_have_signs(self):
        arguments = dict(self.arguments(), scale=0.0)
        zero = prepared.DirectCalls(None, [*arguments], {"scale": arguments["scale"]}, [
            mock.Mock(handle=1, workspace_bytes=0, heads_first=False)])
        self.assertTrue(zero.has_numbers(arguments))
        self.assertFalse(zero.has_numbers(dict(arguments, scale=-0.0)))
        self.assertFalse(zero.has_numbers(dict(arguments, scale=0)))

    def test_tables_that_are_not_taken(self):
        def old_attribute():
            fake_torch.Tensor.__dlpack_c_exchange_api__ = 12345

        tables = {
            "none": fake_torch.install,
            "DLPack 2": lambda: fake_torch.exchange(major=2),
            "DLPack 2 and 3": lambda: fake_torch.exchange(major=3, previous=fake_torch.exchange(major=2)),
            "no function": lambda: fake_torch.exchange(read=None),
            "another capsule": lambda: fake_torch.exchange(name=b"dltensor"),
            "a number": old_attribute,
        }
        for name, make in tables.items():
            with self.subTest(name):
                calls.OnCuda.setUp(self)
                make()
                self.program = self.device.load(calls.kernel("naive_forward.ptx"))
                for _ in range(3):
                    self.call(0, True)

    def test_an_older_table(self):
        fake_torch.exchange(major=2, previous=fake_torch.exchange(major=1))
        self.call(0, True)
        self.call(5, False)

    def test_the_environment_turns_it_off(self):
        with mock.patch.dict(os.environ, FA2_DLPACK="0"):
            self.program = self.device.load(calls.kernel("naive_forward.ptx"))
        for _ in range(3):
            self.call(0, True)

    def test_tensors_that_cannot_be_read(self):
        silent = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(lambda tensor, out: -1)
        for read in (RAISES, silent):
            fake_torch.exchange(read=read)
            calls.exchange.tensor_reader.cache_clear()
            self.program = self.device.load(calls.kernel("naive_forward.ptx"))
            for _ in range(3):
                self.call(0, True)
            with self.assertRaisesRegex(fa2c.Error, "k: dtype is f16, the kernel was compiled for bf16"):
                self.program(**dict(self.arguments(), k=self.tensor((1, 4, 1, 16), "torch.float16")))

    def test_a_subclass(self):
        class Parameter(fake_torch.Tensor):
            pass

        arguments = self.arguments()
        self.program.prepare(**arguments)
        arguments["k"].__class__ = Parameter
        self.call(5, False, **arguments)

    def test_addresses_and_numbers_among_tensors(self):
        arguments = self.arguments()
        given = fa2c.tensor("k", arguments["k"].address, "bf16", arguments["k"].shape)
        for _ in range(3):
            self.program(**dict(arguments, k=given))
            self.check(arguments)
        self.assertEqual(fake_torch.Tensor.reads, 0)
        self.call(0, True)
        self.call(5, False)
        self.program(**dict(arguments, k=given))  # no tensor of PyTorch's
        self.check(arguments)

    def test_refusals_are_word_for_word_the_same(self):
        with mock.patch.dict(os.environ, FA2_DLPACK="0"):
            by_attributes = self.device.load(calls.kernel("naive_forward.ptx"))
        cpu, other = fake_torch.CPU, fake_torch.device("cuda", 0)
        row = self.tensor((16,))
        shape = (1, 4, 1, 16)
        changes = [
            dict(k=self.tensor(shape, "torch.float16")), dict(k=self.tensor(shape, "torch.float64")),
            dict(k=self.tensor((2, 4, 1, 16))), dict(k=self.tensor((4, 1, 16))), dict(k=self.tensor(())),
            dict(k=self.tensor(shape, device=cpu)), dict(k=self.tensor(shape, device=other)),
            dict(k=fake_torch.Tensor(shape, "torch.bfloat16", self.cuda, (0, 0, 0, 0), row.memory)),
            dict(out=fake_torch.Tensor((1, 5, 2, 8), "torch.bfloat16", self.cuda, (0, 0, 0, 1), row.memory)),
            dict(k=[1]), dict(k=None), dict(k=0.5), dict(z=self.tensor(shape)), dict(scale="1"), dict(scale=-1.0),
        ]
        for change in changes:
            arguments = dict(self.arguments(), **change)
            said = []
            for program in (self.program, by_attributes):
                program.prepare(**self.arguments(scale=0.5))
                program.prepare(**self.arguments())
                with self.assertRaises((fa2c.Error, TypeError), msg=str(change)) as caught:
                    program(**arguments)
                said.append((type(caught.exception), str(caught.exception)))
            self.assertEqual(*said)
        for shift in (1, None):
            arguments = self.arguments()
            arguments["k"].address = arguments["k"].address + shift if shift else 0
            said = []
            for program in (self.program, by_attributes):
                reads = fake_torch.Tensor.reads
                with self.assertRaisesRegex(fa2c.Error, "k: the address") as caught:
                    program(**arguments)
                self.assertEqual(fake_torch.Tensor.reads - reads, 5 if program is self.program else 0)
                said.append(str(caught.exception))
            self.assertEqual(*said)

    def test_what_fails_is_not_tried_again(self):
        arguments = self.arguments()
        self.program.prepare(**arguments)
        launches = calls.driver().fakeCudaCount(b"cuLaunchKernel")
        with mock.patch.dict(os.environ, FAKE_CUDA_FAULT="launch"):
            with self.assertRaisesRegex(fa2c.Error, "unspecified launch failure") as caught:
                self.program(**arguments)
        self.assertEqual(caught.exception.status, 4)
        self.assertEqual(calls.driver().fakeCudaCount(b"cuLaunchKernel"), launches + 1)
        self.call(5, False)

    def test_nothing_is_kept_of_calls(self):
        arguments = self.arguments(queries=0, scale=0.5)  # nothing is launched
        wrong = dict(arguments, k=self.tensor((1, 4, 1, 16), "torch.float16"))
        noted = [*arguments.values(), *arguments, wrong["k"]]

        def run(times):
            for i in range(times):
                self.program(**arguments)
                if i % 10 == 0:
                    with self.assertRaises(fa2c.Error):
                        self.program(**wrong)

        run(100)
        reads = fake_torch.Tensor.reads
        before = [sys.getrefcount(value) for value in noted]
        gc.collect()
        blocks = sys.getallocatedblocks()
        run(10_000)
        gc.collect()
        self.assertLess(sys.getallocatedblocks() - blocks, 500)
        self.assertEqual([sys.getrefcount(value) for value in noted], before)
        self.assertGreater(fake_torch.Tensor.reads - reads, 50_000)

    def test_what_was_prepared_dies_before_the_program(self):
        self.call(0, True)
        self.call(5, False)
        kept = [weakref.ref(one) for one in self.program._prepared.values()]
        found = []
        unload = runtime.library().fa2rtProgramUnload

        def look(handle):
            found.extend(one() for one in kept)
            unload(handle)

        with mock.patch.object(runtime.library(), "fa2rtProgramUnload", look):
            del self.program
        self.assertEqual(found, [None])


if __name__ == "__main__":
    unittest.main()
