"""Calls on CUDA with PyTorch's tensors: the fake driver, and as much of PyTorch as a call asks."""

import ctypes
import math
import os
import random
import struct
import threading
import time
import unittest
from unittest import mock

import fa2c
import fake_torch
from fa2c import exchange, runtime

KERNELS = os.environ["FA2_TEST_KERNELS"]
BF16_ONE = 0x3F80


def kernel(name):
    with open(os.path.join(KERNELS, name)) as file:
        return file.read()


def driver():
    library = ctypes.CDLL("libcuda.so.1")
    library.fakeCudaStream.restype = ctypes.c_void_p
    library.fakeCudaCount.restype = ctypes.c_long
    return library


class OnCuda(unittest.TestCase):
    """A device that is not PyTorch's current one. Kernels run on later: tensors outlive them."""

    exchanges = False  # whether PyTorch has DLPack's C exchange functions

    def setUp(self):
        self.torch = fake_torch.install()
        self.addCleanup(fake_torch.remove)
        exchange.tensor_reader.cache_clear()
        if self.exchanges:
            fake_torch.exchange()
        self.cuda = fake_torch.device("cuda", 1)
        self.device = fa2c.Device("cuda:1")

    def tensor(self, shape, dtype="torch.bfloat16", value=None, device=None):
        """Filled with the element `value`, or with NaN."""
        made = fake_torch.Tensor(shape, dtype, device or self.cuda)
        made.bytes()[:] = b"\xff" * len(made.bytes()) if value is None else struct.pack("H", value) * made.numel()
        return made

    def preparations(self):
        """A list that grows by one with each."""
        made = []

        class Counted(runtime.Prepared):
            def __init__(self, *arguments):
                made.append(1)
                super().__init__(*arguments)

        patch = mock.patch.object(runtime, "Prepared", Counted)
        patch.start()
        self.addCleanup(patch.stop)
        return made


class AttentionCase(OnCuda):
    """naive_forward on inputs of ones: out is 1 where a row sees a key, lse is log(keys) + 16 scale."""

    def setUp(self):
        super().setUp()
        self.program = self.device.load(kernel("naive_forward.ptx"))

    def arguments(self, queries=5, keys=4, batch=1, **others):
        return dict(
            q=self.tensor((batch, queries, 2, 16), value=BF16_ONE),
            k=self.tensor((batch, keys, 1, 16), value=BF16_ONE),
            v=self.tensor((batch, keys, 1, 8), value=BF16_ONE),
            out=self.tensor((batch, queries, 2, 8)),
            lse=self.tensor((batch, 2, queries), "torch.float32"),
            **others,
        )

    def check(self, arguments, scale=0.25):
        self.device.synchronize()
        batch, queries = arguments["q"].shape[:2]
        keys = arguments["k"].shape[1]
        seen = [max(0, min(row + keys - queries + 1, keys)) for row in range(queries)]
        out = struct.unpack(f"{batch * queries * 16}H", arguments["out"].bytes()[:])
        self.assertEqual(list(out), [BF16_ONE if n else 0 for n in seen for _ in range(16)] * batch)
        lse = struct.unpack(f"{batch * 2 * queries}f", arguments["lse"].bytes()[:])
        for got, n in zip(lse, seen * 2 * batch):
            self.assertAlmostEqual(got, math.log(n) + 16 * scale if n else -math.inf, places=4)


class Attention(AttentionCase):
    def test_a_layout_is_prepared_once(self):
        made = self.preparations()
        self.program.prepare(**self.arguments())
        launches = driver().fakeCudaCount(b"cuLaunchKernel")
        for stream in (0, 0xABC, 0):
            self.torch.state.stream[1] = stream
            arguments = self.arguments()
            self.program(**arguments)
            self.check(arguments)
            self.assertEqual(driver().fakeCudaStream() or 0, stream)
        self.assertEqual(len(made), 1)
        self.assertEqual(driver().fakeCudaCount(b"cuLaunchKernel"), launches + 3)

    def test_other_layouts_are_bound_anew(self):
        """Random lengths, batches and strides."""
        choose = random.Random(5)
        for _ in range(40):
            arguments = self.arguments(choose.randint(0, 70), choose.randint(1, 40), choose.randint(1, 2))
            batch, queries, heads, d = arguments["q"].shape
            if choose.random() < 0.5:  # rows farther apart
                wide = self.tensor((batch, queries, heads + 1, d), value=BF16_ONE)
                arguments["q"] = fake_torch.Tensor((batch, queries, heads, d), "torch.bfloat16", self.cuda,
                                                   wide.stride(), wide.memory)
            self.program(**arguments)
            self.check(arguments)

    def test_guards_are_evaluated_for_each_length(self):
        text = kernel("naive_forward.ptx")
        entries = text[text.index(".visible .entry"):].replace("naive_forward", "nothing")
        begin = text.index('"launches": [{') + len('"launches": [')
        end = text.index("]}]", begin) + len("]}")
        launch = text[begin:end]
        both = ",\n//   ".join((
            launch.replace("{", '{"when": "seqlen_k <= 4",', 1).replace("naive_forward", "nothing"),
            launch.replace("{", '{"when": "!(seqlen_k <= 4)",', 1),
        ))
        program = self.device.load(text[:begin] + both + text[end:] + entries)
        for keys in (5, 4, 6, 3, 5, 4):
            arguments = self.arguments(keys=keys)
            program(**arguments)
            self.device.synchronize()
            if keys > 4:
                self.check(arguments)
            else:
                self.assertEqual(set(arguments["out"].bytes()[:]), {0xFF})

    def test_scalars(self):
        scale = fake_torch.Tensor((), "torch.float32")
        ctypes.c_float.from_address(scale.address).value = 0.5
        for value, wanted in ((0.25, 0.25), (0.5, 0.5), (1, 1.0), (scale, 0.5), (0.25, 0.25)):
            arguments = self.arguments()
            self.program(scale=value, **arguments)
            self.check(arguments, wanted)
        ctypes.c_float.from_address(scale.address).value = 2.0  # the same tensor, another value
        arguments = self.arguments()
        self.program(scale=scale, **arguments)
        self.check(arguments, 2.0)
        on_device = fake_torch.Tensor((), "torch.float32", self.cuda)
        for run in (self.program, self.program.prepare):
            with self.assertRaisesRegex(TypeError, r"scale: a 0-d tensor on cuda:1; .* \(scale.item\(\) gives it"):
                run(scale=on_device, **self.arguments())
            with self.assertRaisesRegex(fa2c.Error, "scale: -1 is not positive"):
                run(scale=-1.0, **self.arguments())

    def refused(self, error, text, **changes):
        """By a call and by prepare, also beside a layout that was; outputs stay as they were."""
        self.program.prepare(**self.arguments())
        arguments = dict(self.arguments(), **changes)
        for run in (self.program, self.program.prepare):
            with self.assertRaisesRegex(error, text):
                run(**arguments)
        self.device.synchronize()
        for name in {"out", "lse"} - set(changes):
            self.assertEqual(set(arguments[name].bytes()[:]), {0xFF})

    def test_tensors_elsewhere(self):
        shape = (1, 4, 1, 16)
        self.refused(fa2c.Error, r"k: the tensor is on cpu; the program is loaded on cuda:1, .* k.to\('cuda:1'\)",
                     k=self.tensor(shape, device=fake_torch.CPU))
        self.refused(fa2c.Error, "k: the tensor is on cuda:0; the program is loaded on cuda:1",
                     k=self.tensor(shape, device=fake_torch.device("cuda", 0)))

    def test_tensors_that_do_not_match(self):
        self.refused(TypeError, "k: dtype is torch.float64; expected a PyTorch tensor on cuda:1",
                     k=self.tensor((1, 4, 1, 16), "torch.float64"))
        self.refused(fa2c.Error, "k: dtype is f16, the kernel was compiled for bf16",
                     k=self.tensor((1, 4, 1, 16), "torch.float16"))
        self.refused(fa2c.Error, r"k: extent 0 \(batch\) is 2, but q gives", k=self.tensor((2, 4, 1, 16)))
        self.refused(fa2c.Error, "no argument 'z'", z=self.tensor((1,)))
        self.refused(TypeError, "k: got list; expected", k=[1])
        arguments = self.arguments()
        del arguments["k"]
        with self.assertRaisesRegex(fa2c.Error, "'k' is missing"):
            self.program(**arguments)

    def test_expanded_tensors(self):
        row = self.tensor((16,), value=BF16_ONE)

        def view(shape, strides):
            return fake_torch.Tensor(shape, "torch.bfloat16", self.cuda, strides, row.memory)

        self.refused(fa2c.Error, r"k: stride 3 \(the innermost\) is 0; it must be 1, as rows are read whole: pass a "
                                r"packed copy of the tensor \(k.contiguous\(\)\)$", k=view((1, 4, 1, 16), (0, 0, 0, 0)))
        self.refused(fa2c.Error, r"out: stride 3 \(the innermost\) is 0; .* pass memory with packed rows$",
                     out=view((1, 5, 2, 8), (0, 0, 0, 0)))
        # Over everything but a row, an input may repeat.
        arguments = dict(self.arguments(), k=view((1, 4, 1, 16), (0, 0, 0, 1)))
        self.program(**arguments)
        self.check(arguments)

    def test_calls_without_pytorchs_tensors(self):
        buffers = {name: ctypes.create_string_buffer(4096) for name in ("q", "k", "v", "out", "lse", "other")}

        def given(name, buffer):
            dtype, shape = "f32" if name == "lse" else "bf16", self.arguments()[name].shape
            return fa2c.tensor(name, ctypes.addressof(buffers[buffer]), dtype, shape)

        addresses = {name: given(name, name) for name in self.arguments()}
        for run in (self.program, self.program.prepare):
            with self.assertRaisesRegex(TypeError, "q: no argument is a PyTorch tensor; a call on cuda:1 takes its str"):
                run(**addresses)
        mixed = dict(self.arguments(), k=addresses["k"])  # one beside others
        self.program(**mixed)
        self.device.synchronize()
        with mock.patch.dict(os.environ, FAKE_CUDA_OWN="1"):  # the driver is asked of a new address
            with self.assertRaisesRegex(fa2c.Error, "host memory that Fake GPU does not reach"):
                self.program(**dict(self.arguments(), k=given("k", "other")))

    def test_several_threads(self):
        done = []

        def work(queries):
            for i in range(60):
                arguments = self.arguments(queries if i % 3 else 5)
                self.program(**arguments)
                self.check(arguments)
            done.append(queries)

        threads = [threading.Thread(target=work, args=(n,)) for n in (5, 6, 7, 8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(done), [5, 6, 7, 8])

    def test_layouts_are_forgotten_in_the_end(self):
        with mock.patch.object(runtime, "_MOST_PREPARED", 8):
            for queries in [*range(20), *range(20)]:
                arguments = self.arguments(queries)
                self.program(**arguments)
                self.check(arguments)
                self.assertLessEqual(len(self.program._prepared), 8)

    def test_a_prepared_call_costs_the_host_little(self):
        """Against one that binds its arguments: the least of many, which other work on the machine does not move."""
        arguments = self.arguments(queries=0)  # nothing is launched: the host's side alone

        def least(run):
            times = []
            for _ in range(400):
                begin = time.perf_counter_ns()
                run()
                times.append(time.perf_counter_ns() - begin)
            return min(times)

        prepared = least(lambda: self.program(**arguments))
        self.assertLess(2 * prepared, least(lambda: self.program.launch(arguments)))


class TensorMaps(OnCuda):
    """tma_copy: two tensor maps and a workspace of zeros."""

    def setUp(self):
        super().setUp()
        self.program = self.device.load(kernel("tma_copy.ptx"))

    def arguments(self):
        v = self.tensor((1, 9, 2, 72))
        v.bytes()[:] = random.Random(3).randbytes(9 * 2 * 72 * 2)
        return dict(v=v, out=self.tensor((1, 9, 2, 72)))

    def check(self, arguments):
        self.device.synchronize()
        self.assertEqual(arguments["v"].bytes()[:], arguments["out"].bytes()[:])

    def test_maps_are_encoded_where_addresses_are_new(self):
        first, second = self.arguments(), self.arguments()
        before = driver().fakeCudaCount(b"cuTensorMapEncodeTiled")
        for arguments in (first, second) * 3:
            self.program(**arguments)
            self.check(arguments)
            ctypes.memset(arguments["out"].address, 0xFF, 100)
        self.assertEqual(driver().fakeCudaCount(b"cuTensorMapEncodeTiled"), before + 4)

    def test_names_tell_tensors_apart(self):
        """v and out have one layout; neither's place among the arguments says which it is."""
        for _ in range(2):
            for order in (("v", "out"), ("out", "v")):
                arguments = self.arguments()
                content = arguments["v"].bytes()[:]
                self.program(**{name: arguments[name] for name in order})
                self.check(arguments)
                self.assertEqual(arguments["out"].bytes()[:], content)

    def test_addresses_are_checked_each_time(self):
        self.program.prepare(**self.arguments())
        for shift, text in ((8, "v: the address 0x.*8 is not a multiple of 16 bytes"), (None, "v: the address is null")):
            arguments = self.arguments()
            arguments["v"].address = 0 if shift is None else arguments["v"].address + shift
            with self.assertRaisesRegex(fa2c.Error, text):
                self.program(**arguments)
            self.device.synchronize()
            self.assertEqual(set(arguments["out"].bytes()[:]), {0xFF})

    def test_workspaces_of_zeros(self):
        """One a stream; in a capture one a call."""
        state = self.torch.state

        def zeros(stream):
            state.stream[1], before = stream, state.zeros
            arguments = self.arguments()
            self.program(**arguments)
            self.check(arguments)
            return state.zeros - before

        self.assertEqual([zeros(stream) for stream in (1, 1, 2, 1, 2)], [1, 0, 1, 0, 0])
        state.capturing = 1  # a graph's memory holds zeros only when it is replayed
        self.assertEqual([zeros(1), zeros(1)], [1, 1])
        state.capturing = 0  # on another device
        self.assertEqual(zeros(1), 0)
        self.assertEqual([zeros(0), zeros(0)], [1, 0])  # the default stream, which no graph captures
        state.current = 1
        self.assertEqual(zeros(1), 0)
        state.capturing = 1
        self.assertEqual([zeros(1), zeros(0)], [1, 0])

    def test_other_workspaces_are_made_each_time(self):
        program = self.device.load(kernel("tma_copy.ptx").replace(', "zeroed": true', ""))
        state = self.torch.state
        for i in range(3):
            arguments = self.arguments()
            program(**arguments)
            self.check(arguments)
            self.assertEqual((state.empties, state.zeros), (i + 1, 0))


if __name__ == "__main__":
    unittest.main()
