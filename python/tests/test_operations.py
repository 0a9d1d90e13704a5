"""What a program around fa2c.attention does with it: registered operations, CUDA graphs, a GPU's own kernels."""

import os
import unittest
from unittest import mock

import test_torch

torch, DEVICE = test_torch.torch, test_torch.DEVICE
setUpModule = test_torch.setUpModule
if torch is not None:
    import fa2c
    from fa2c import autograd, kernels, ops, torch_attention  # noqa: F401  (which registers)


class Registered(test_torch.Case):
    def test_opcheck(self):
        """PyTorch's own checks of a registered operation: schema, autograd, fake tensors, and traces with dynamic shapes."""
        q, k, v = self.three(1, 2, 1, 8, 16, 32, 16)
        slopes = torch.rand(2, device=DEVICE, requires_grad=True)
        program = fa2c.program(lambda s, b, h, i, j: s + slopes[h] * j)
        checks = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
        close = dict(rtol=0.05, atol=0.05)  # dQ is a sum in no fixed order
        plain = (q, k, v, [], [], "causal", None, "", None, False, True)
        read = (q, k, v, [slopes], [], "none", 0.2, "", program.text, False, False)
        sunk = (q, k, v, [slopes], [], "causal", None, "sink", None, True, True)
        for arguments in (plain, (*plain[:-1], False), read, sunk):
            arguments = [x.transpose(1, 2) if isinstance(x, torch.Tensor) and not arguments[-1] else x for x in arguments]
            arguments = [x.detach().requires_grad_() if isinstance(x, torch.Tensor) else x for x in arguments]
            torch.library.opcheck(torch.ops.fa2c.attention, tuple(arguments), test_utils=checks, **close)
        out, lse = torch.ops.fa2c.attention(*(x.detach() if isinstance(x, torch.Tensor) else x for x in plain))
        torch.library.opcheck(
            torch.ops.fa2c.attention_backward, (torch.randn_like(out), None, q.detach(), k.detach(), v.detach(), out, lse, [], [], [], *plain[5:]),
            test_utils=("test_schema", "test_faketensor"), **close)

    def test_compiled_gradients(self):
        """Of out and of lse, with sinks and dropout, as without torch.compile."""
        q, k, v = self.three(1, 2, 1, 8, 16, 32, 32)
        sinks = torch.rand(2, device=DEVICE, requires_grad=True)

        def both(q, k, v, sinks):
            out, lse = fa2c.attention(q, k, v, causal=True, sinks=sinks, dropout_p=0.3, rng=(3, 4), return_lse=True)
            return out.float().square().sum() + lse.square().sum()

        def out_alone(q, k, v, sinks):
            return fa2c.attention(q, k, v, sinks=sinks).float().sum()

        for function in (both, out_alone):
            wanted = torch.autograd.grad(function(q, k, v, sinks), (q, k, v, sinks))
            compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
            for got, exact in zip(torch.autograd.grad(compiled(q, k, v, sinks), (q, k, v, sinks)), wanted):
                torch.testing.assert_close(got, exact, rtol=0.05, atol=0.05)

    def test_export(self):
        class Module(torch.nn.Module):
            def forward(self, q, k, v):
                return fa2c.attention(q, k, v, causal=True) * 2

        given = tuple(x.detach() for x in self.three(1, 2, 1, 8, 16, 32, 32))
        exported = torch.export.export(Module(), given)
        self.assertIn("fa2c.attention", str(exported.graph))
        self.assertTrue(torch.equal(exported.module()(*given), Module()(*given)))


class OfAnH100(test_torch.Case):
    """Kernels of sm_90a under autograd: on the simulated one where there is no other."""

    def setUp(self):
        super().setUp()
        if DEVICE == "cpu":
            for change in (mock.patch.dict(os.environ, {"FA2_SIMULATOR": "sim:sm_90?strict"}),
                           mock.patch.object(autograd, "kernels", kernels.Kernels()),
                           mock.patch.dict(torch_attention._plans, clear=True), mock.patch.dict(torch_attention._calls, clear=True)):
                change.start()
                self.addCleanup(change.stop)
        elif torch.cuda.get_device_capability() != (9, 0):
            self.skipTest("the GPU is of another compute capability than 9.0")

    def targets(self):
        """{head dim: (forward's, backward's)} of the plans that this test made."""
        forward = {call.plan: call.program.manifest["target"]["arch"] for call in torch_attention._calls.values()}
        return {(plan.specification.head_dim, plan.deterministic): (forward[plan], [*plan._backward.values()][-1].manifest["target"]["arch"])
                for plan in torch_attention._plans.values() if plan in forward and plan._backward}

    def test_gradients(self):
        for d, d_v, options in ((8, 8, {}), (64, 64, dict(causal=True)), (128, 128, dict(causal=True)), (72, 40, {}),
                                (128, 128, dict(causal="top_left", deterministic=True))):
            with self.subTest(d=d, **options):
                self.expect_right(*self.three(1, 4, 2, 40, 72, d, d_v), **options)
        targets = self.targets()
        for d in (8, 64, 72, 128):
            self.assertEqual(targets[d, False], ("sm_90a", "sm_90a"))
        self.assertEqual(targets[128, True], ("sm_90a", "sm_90a"))

    def test_programs(self):
        """Gradients of programs."""
        q, k, v = self.three(1, 2, 2, 24, 40, 64, 64)
        fa2c.attention(q, k, v, softcap=2.0).sum().backward()
        self.assertTrue(torch.isfinite(q.grad).all())

    def test_gradients_of_biases(self):
        """A bias with a value for each score has its gradient stored in its own type; so has one that entries or heads share, summed over them in
        tiles, or, of two of them or over heads in one order, stored for each and summed afterwards. Others have it summed in float32. In both orders of
        dimensions, under a mask, where a row's keys are no multiple of 8, and where the program does more than add."""
        for layout, causal, sk, b, d, shape, cap, fixed, form in (
            ("bhsd", False, 40, 2, 64, (2, 4), None, False, ":whole"), ("bshd", True, 43, 2, 64, (2, 4), None, False, ":whole"),
            ("bhsd", True, 40, 2, 64, (1, 4), None, False, ":whole"), ("bhsd", False, 40, 2, 64, (2, 4), 3.0, False, ""),
            ("bhsd", True, 40, 3, 64, (1, 4), None, False, ":batch"), ("bshd", False, 43, 2, 64, (2, 1), None, False, ":heads"),
            ("bshd", True, 43, 2, 64, (1, 1), 3.0, False, ":batch:heads"), ("bhsd", False, 40, 1, 64, (1, 1), None, False, ":heads"),
            ("bhsd", False, 40, 2, 64, (1, 4), 3.0, False, ":batch"), ("bhsd", False, 40, 3, 192, (1, 4), None, False, ""),
            ("bshd", True, 43, 2, 64, (2, 4), None, True, ":whole"), ("bhsd", False, 40, 2, 64, (1, 4), None, True, ":whole"),
            ("bshd", True, 43, 3, 64, (1, 4), None, True, ":batch"), ("bhsd", False, 40, 2, 64, (1, 4), 3.0, True, ":batch"),
            ("bshd", True, 43, 2, 64, (2, 1), None, True, ":whole"), ("bhsd", False, 43, 2, 64, (1, 1), None, True, ":whole"),
        ):
            with self.subTest(layout=layout, causal=causal, sk=sk, batch=b, d=d, shape=shape, cap=cap, deterministic=fixed):
                torch_attention._calls.clear()
                q, k, v = self.three(b, 4, 2, 72, sk, d, d)
                bias = self.draw(*shape, 72, sk)
                order = (lambda x: x) if layout == "bhsd" else (lambda x: x.transpose(1, 2))
                out = order(fa2c.attention(*map(order, (q, k, v)), causal=causal, bias=bias, softcap=cap, layout=layout, deterministic=fixed))
                dout = torch.randn_like(out)
                got = torch.autograd.grad(out, (q, k, v, bias), dout, retain_graph=fixed)
                if fixed:
                    for mine, again in zip(got, torch.autograd.grad(out, (q, k, v, bias), dout)):
                        self.assertTrue(torch.equal(mine, again))
                self.assertEqual((got[3].dtype, got[3].shape), (bias.dtype, bias.shape))
                x = q.double() @ k.double().repeat_interleave(2, 1).transpose(2, 3) / d**0.5
                x = (x if cap is None else cap * torch.tanh(x / cap)) + bias.double()
                i, j = torch.arange(72, device=DEVICE)[:, None] + sk - 72, torch.arange(sk, device=DEVICE)
                p = torch.softmax(x.masked_fill(j > i, float("-inf")) if causal else x, 3).nan_to_num(0)
                dp = dout.double() @ v.double().repeat_interleave(2, 1).transpose(2, 3)
                ds = p * (dp - (dout.double() * out.detach().double()).sum(3, keepdim=True))
                wanted = torch.autograd.grad(x, (q, k, bias), ds.detach())
                for mine, exact in zip((*got[:2], got[3]), wanted):
                    self.expect_close(mine, test_torch.numbers(exact))
                (plan,) = [call.plan for call in torch_attention._calls.values()][-1:]
                self.assertEqual([key[0] for key in plan._backward][-1], ("bias" + form,))

    def test_deterministic_sums(self):
        """Of what is shared along any dimension, and of what a program changes: the same bits again, and what sums in any order give."""
        q, k, v = self.three(2, 2, 2, 24, 40, 64, 64)
        for shape in ((2, 2, 1, 40), (1, 2, 1, 40), (2, 1, 24, 1), (1, 2, 1, 1), (1, 2, 24, 40), (2, 2, 24, 40)):
            bias, found = self.draw(*shape), []
            for fixed in (False, True, True):
                out = fa2c.attention(q, k, v, bias=bias, softcap=3.0, deterministic=fixed)
                found += torch.autograd.grad(out.float().square().sum(), bias)
            with self.subTest(shape=shape):
                self.assertTrue(torch.equal(found[1], found[2]))
                self.expect_close(found[0].flatten(1), test_torch.numbers(found[1].double()).reshape(shape[0], -1))


class Memory(test_torch.Case):
    def test_an_lse_that_nobody_reads(self):
        """It is shared by calls, and not kept where it is large; one that is returned is a call's own."""
        q, k, v = self.three(1, 2, 2, 24, 40, 16, 16, grad=False)
        with mock.patch.dict(autograd._unwanted, clear=True), mock.patch.dict(torch_attention._calls, clear=True):
            wanted, lse = fa2c.attention(q, k, v, return_lse=True)
            kept = lse.clone()
            self.assertTrue(torch.equal(fa2c.attention(q, k * 2, v, scale=0.125), fa2c.attention(q, k, v)))
            self.assertTrue(torch.equal(lse, kept))
            (memory,) = [tensors[-1] for tensors in autograd._unwanted.values()]
            self.assertEqual(memory.numel(), 48)
            torch_attention._calls.clear()
            with mock.patch.object(autograd, "_MOST_UNWANTED", 47):
                self.assertTrue(torch.equal(fa2c.attention(q, k, v), wanted))
                self.assertIsNone(next(iter(torch_attention._calls.values()))._unwanted)

    def test_allocations_of_several_devices(self):
        device = torch.device("cuda", 1)
        with mock.patch.object(torch.cuda, "device_count", return_value=2), mock.patch.object(torch._C, "_cuda_getDevice", lambda: 1, create=True), \
                mock.patch.object(torch._C._dynamo.guards, "_empty_strided_cuda", lambda *a: ("direct", *a), create=True), \
                mock.patch.object(torch, "empty_strided", lambda *a, **o: ("PyTorch's", *a)):
            allocate = autograd.allocator(device)
            self.assertEqual(allocate((2,), (1,), torch.float32)[0], "direct")
            self.assertEqual(autograd.allocator(torch.device("cuda", 0))((2,), (1,), torch.float32)[0], "PyTorch's")


@unittest.skipIf(DEVICE == "cpu", "there is no GPU")
class Graphs(test_torch.Case):
    def test_forward_and_backward(self):
        """Of kernels that were loaded before; a graph's results are its own, whatever runs between replays."""
        q, k, v = self.three(1, 4, 2, 100, 130, 64, 64)
        dout = torch.randn(1, 4, 100, 64, device=DEVICE, dtype=q.dtype)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.autograd.grad(fa2c.attention(q, k, v, causal=True), (q, k, v), dout)
            with torch.no_grad():
                fa2c.attention(torch.cat([q, q, q], 2), k, v)
        torch.cuda.synchronize()
        autograd._unwanted.clear()
        torch_attention._calls.clear()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = fa2c.attention(q, k, v, causal=True)
            gradients = torch.autograd.grad(out, (q, k, v), dout)
            with torch.no_grad():
                longer = fa2c.attention(torch.cat([q, q, q], 2), k, v)  # the lse that nobody reads is the graph's memory
        with torch.no_grad():
            q.mul_(0.5)
        fa2c.attention(q.detach(), k.detach(), v.detach())
        graph.replay()
        torch.cuda.synchronize()
        wanted = fa2c.attention(q, k, v, causal=True)
        self.assertTrue(torch.equal(out, wanted))
        for got, expected in zip(gradients, torch.autograd.grad(wanted, (q, k, v), dout)):
            self.assertLess((got - expected).abs().max().item(), 0.02 * expected.abs().max().item())
        with torch.no_grad():
            self.assertTrue(torch.equal(longer, fa2c.attention(torch.cat([q, q, q], 2), k, v)))


if __name__ == "__main__":
    unittest.main()
