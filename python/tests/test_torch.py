"""fa2c.attention on PyTorch's tensors: of the CPU on the simulator, of CUDA where FA2_TEST_DEVICE says so."""

import gc
import os
import tempfile
import unittest
import warnings
from unittest import mock

import fa2c

try:
    import numpy as np
    import torch
    from reference import UNIT, attention, excess, gradients
except ImportError:
    torch = None
else:
    from fa2c import torch_attention
try:
    fa2c.Device("sim")
    device_is_there = True
except (fa2c.Error, ImportError):
    device_is_there = False
DEVICE = os.environ.get("FA2_TEST_DEVICE", "cpu")


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    os.environ["FA2_CACHE_DIR"] = folder.name


def numbers(x):
    return x.detach().double().cpu().numpy()


@unittest.skipIf(torch is None, "PyTorch is not installed")
@unittest.skipUnless(device_is_there, "this build of the runtime has no simulator")
class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def draw(self, *shape, dtype=None, grad=True):
        return torch.randn(shape, device=DEVICE).to(dtype or torch.bfloat16).requires_grad_(grad)

    def three(self, b, h, h_kv, sq, sk, d, d_v, **options):
        return self.draw(b, h, sq, d, **options), self.draw(b, h_kv, sk, d, **options), self.draw(b, h_kv, sk, d_v, **options)

    def expect_close(self, got, wanted):
        self.assertLess(excess(numbers(got), wanted, UNIT[str(got.dtype).split(".")[1]]), 1)

    def expect_right(self, q, k, v, causal=False, scale=None, **options):
        """Forward and backward."""
        out, lse = fa2c.attention(q, k, v, causal=causal, scale=scale, return_lse=True, **options)
        wanted, wanted_lse = attention(*map(numbers, (q, k, v)), causal, scale)
        self.expect_close(out, wanted)
        np.testing.assert_allclose(numbers(lse), wanted_lse, rtol=1e-5, atol=1e-5)
        dout = torch.randn_like(out)
        got = torch.autograd.grad(out, (q, k, v), dout)
        for x, gradient, expected in zip((q, k, v), got, gradients(*map(numbers, (q, k, v, out, dout)), causal, scale)):
            self.assertEqual((gradient.shape, gradient.dtype), (x.shape, x.dtype))
            self.expect_close(gradient, expected)


class Attention(Case):
    def test_masks_and_grouped_heads(self):
        for causal in (False, True, "top_left"):
            for sq, sk in ((40, 90), (90, 40), (64, 64)):
                with self.subTest(causal=causal, sq=sq, sk=sk):
                    self.expect_right(*self.three(2, 4, 2, sq, sk, 64, 64), causal)

    def test_head_dims_types_and_scale(self):
        self.expect_right(*self.three(1, 2, 1, 40, 50, 72, 40), True)
        self.expect_right(*self.three(1, 2, 1, 40, 50, 32, 64, dtype=torch.float16), scale=0.25)

    def test_deterministic(self):
        q, k, v = self.three(1, 2, 1, 40, 50, 64, 64)
        self.expect_right(q, k, v, True, deterministic=True)
        with mock.patch.object(torch, "are_deterministic_algorithms_enabled", return_value=True):
            fa2c.attention(q, k, v, causal="top_left")
        self.assertTrue(any(plan.deterministic for key, plan in torch_attention._plans.items() if "causal_top_left" in key))

    def test_strides_are_kept(self):
        """Neither order in memory is copied, and results lie as q, k and v do."""
        packed = self.draw(2, 40, 3, 4, 64, grad=False)
        cases = {
            "bshd in memory": [x.transpose(1, 2) for x in packed.unbind(2)],
            "bhsd in memory": [x.transpose(1, 2).contiguous() for x in packed.unbind(2)],
            "expanded": [packed[:1, :, i].transpose(1, 2).expand(2, 4, 40, 64) for i in range(3)],
        }
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for name, tensors in cases.items():
                with self.subTest(name):
                    q, k, v = (x.detach().requires_grad_() for x in tensors)
                    self.expect_right(q, k, v, True)
        q, k, v = (x.detach().contiguous().transpose(1, 2) for x in packed.unbind(2))
        out = fa2c.attention(q, k, v)
        self.assertEqual(out.stride(), q.stride())
        self.assertTrue(fa2c.attention(q, k, v, return_lse=True)[1].is_contiguous())
        out = fa2c.attention(q, k, v[..., :32].contiguous())
        self.assertEqual(out.stride(), tuple(s // 2 if s > 1 else s for s in q.stride()))

    def test_copies_are_said(self):
        q, k, v = self.three(1, 2, 2, 40, 40, 64, 64)
        for bad, why in (
            (self.draw(1, 2, 64, 40).transpose(2, 3), "k is copied: its head dim's stride is 40, which must be 1"),
            (self.draw(1, 2, 40, 68)[..., :64], "k is copied: its stride 2 is 68, which must be a multiple of 8"),
            (self.draw(1, 2, 40, 72)[..., 4:68], "k is copied: its address is 8 bytes past a multiple of 16"),
        ):
            for _ in range(2):
                with self.assertWarnsRegex(UserWarning, why):
                    self.expect_right(q, bad, v)

    def test_gradients_that_lie_badly(self):
        """dout of a sum is one element, expanded; that of a transposed product lies transposed."""
        q, k, v = self.three(1, 2, 1, 40, 50, 64, 64)
        wanted = gradients(*map(numbers, (q, k, v, fa2c.attention(q, k, v))), np.ones((1, 2, 40, 64)))
        for dout in (torch.ones((), device=DEVICE, dtype=q.dtype).expand(1, 2, 40, 64),
                     torch.ones(1, 2, 64, 40, device=DEVICE, dtype=q.dtype).transpose(2, 3)):
            for got, expected in zip(torch.autograd.grad(fa2c.attention(q, k, v), (q, k, v), dout), wanted):
                self.expect_close(got, expected)

    def test_only_some_gradients(self):
        q, k, v = self.three(1, 2, 1, 40, 50, 64, 64)
        out = fa2c.attention(q.detach(), k, v.detach())
        out.sum().backward()
        self.assertIsNone(q.grad)
        self.expect_close(k.grad, gradients(*map(numbers, (q, k, v, out)), np.ones((1, 2, 40, 64)))[1])
        with torch.no_grad():
            self.assertFalse(fa2c.attention(q, k, v).requires_grad)

    def test_gradients_that_there_are_not(self):
        q, k, v = self.three(1, 2, 1, 40, 50, 64, 64)
        out = fa2c.attention(q, k, v)
        (dq,) = torch.autograd.grad(out.sum(), q, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "second derivatives are not supported yet"):
            dq.sum().backward()

    def test_gradients_of_lse(self):
        """Alone and beside those of out, of programs too, in both orders of dimensions; rows that see no key have none."""
        for layout, causal, cap, uses_out in (("bhsd", False, None, True), ("bshd", True, None, True), ("bhsd", True, 2.0, True), ("bhsd", False, None, False)):
            with self.subTest(layout=layout, causal=causal, cap=cap, uses_out=uses_out):
                q, k, v = self.three(2, 4, 2, 40, 72 if not causal else 30, 64, 32)
                order = (lambda x: x) if layout == "bhsd" else (lambda x: x.transpose(1, 2))
                out, lse = fa2c.attention(*map(order, (q, k, v)), causal=causal, softcap=cap, return_lse=True, layout=layout)
                dout, dlse = torch.randn_like(order(out)), 3 * torch.randn_like(lse)
                loss = (lse * dlse).masked_fill(torch.isinf(lse), 0).sum()
                if uses_out:
                    loss = loss + (order(out) * dout).sum()
                got = torch.autograd.grad(loss, (q, k, v), allow_unused=True)
                x = q.double() @ k.double().repeat_interleave(2, 1).transpose(2, 3) / 8
                x = x if cap is None else cap * torch.tanh(x / cap)
                i, j = torch.arange(40, device=DEVICE)[:, None] + k.shape[2] - 40, torch.arange(k.shape[2], device=DEVICE)
                p = torch.softmax(x.masked_fill(j > i, float("-inf")) if causal else x, 3).nan_to_num(0)
                dp = dout.double() @ v.double().repeat_interleave(2, 1).transpose(2, 3) if uses_out else 0
                delta = (dout.double() * order(out).detach().double()).sum(3, keepdim=True) if uses_out else 0
                ds = p * (dp - delta + dlse.double()[..., None])
                wanted = torch.autograd.grad(x, (q, k), ds.detach())
                dv = (p.transpose(2, 3) @ dout.double()).unflatten(1, (2, 2)).sum(2) if uses_out else torch.zeros_like(v)
                for mine, exact in zip(got, (*wanted, dv)):
                    self.expect_close(mine, numbers(exact))

    def test_sinks(self):
        """One more score a row, with gradients, beside masks, windows and programs; in both orders of dimensions."""
        sinks, documents = torch.randn(4, device=DEVICE, requires_grad=True), torch.sort(torch.randint(3, (72,), device=DEVICE))[0]
        i, j = torch.arange(40, device=DEVICE)[:, None] + 32, torch.arange(72, device=DEVICE)
        documented = dict(mask_mod=lambda b, h, q_idx, kv_idx: documents[q_idx + 32] == documents[kv_idx])
        for layout, options, hidden in (
            ("bhsd", {}, j < 0), ("bhsd", dict(causal=True, deterministic=True), j > i), ("bhsd", dict(causal="top_left"), j > i - 32),
            ("bshd", dict(causal=True, window=(9, -1), softcap=3.0), (j > i) | (j < i - 9)),
            ("bshd", documented, documents[i] != documents[j]),
        ):
            with self.subTest(layout=layout, **options):
                q, k, v = self.three(2, 4, 2, 40, 72, 64, 64)
                order = (lambda x: x) if layout == "bhsd" else (lambda x: x.transpose(1, 2))
                out = order(fa2c.attention(*map(order, (q, k, v)), sinks=sinks, layout=layout, **options))
                dout = torch.randn_like(out)
                got = out, *torch.autograd.grad(out, (q, k, v, sinks), dout)
                x = q.double() @ k.double().repeat_interleave(2, 1).transpose(2, 3) / 8
                x = 3 * torch.tanh(x / 3) if "softcap" in options else x
                x = torch.cat([sinks.double()[None, :, None, None].expand(2, 4, 40, 1), x.masked_fill(hidden, float("-inf"))], 3)
                p = torch.softmax(x, 3)
                dp = dout.double() @ v.double().repeat_interleave(2, 1).transpose(2, 3)
                delta = (dout.double() * out.detach().double()).sum(3, keepdim=True)
                ds = p * (torch.cat([torch.zeros_like(delta), dp], 3) - delta)
                dq, dk, dsinks = torch.autograd.grad(x, (q, k, sinks), ds.detach())
                dv = (p[..., 1:].transpose(2, 3) @ dout.double()).unflatten(1, (2, 2)).sum(2)
                wanted = p[..., 1:] @ v.double().repeat_interleave(2, 1), dq, dk, dv, dsinks
                for mine, exact in zip(got, wanted):
                    self.assertLess(excess(numbers(mine).reshape(-1, mine.shape[-1]), numbers(exact).reshape(-1, mine.shape[-1]), UNIT["bfloat16"]), 1)

    def test_dropout(self):
        """Gradients are those of what forward dropped; a drawn seed is the generator's, and checkpoints repeat it."""
        from reference import kept

        q, k, v = self.three(2, 4, 2, 40, 72, 64, 64)
        sinks = torch.randn(4, device=DEVICE, requires_grad=True)
        mask = torch.tensor(kept(99, 7, 0.5, 2, 4, 40, 72), device=DEVICE)
        for options in ({}, dict(deterministic=True), dict(softcap=3.0)):
            with self.subTest(**options):
                out = fa2c.attention(q, k, v, sinks=sinks, dropout_p=0.5, rng=torch.tensor([99, 7], device=DEVICE), **options)
                dout = torch.randn_like(out)
                got = out, *torch.autograd.grad(out, (q, k, v), dout)
                x = q.double() @ k.double().repeat_interleave(2, 1).transpose(2, 3) / 8
                x = 3 * torch.tanh(x / 3) if "softcap" in options else x
                p = torch.softmax(torch.cat([sinks.double()[None, :, None, None].expand(2, 4, 40, 1), x], 3), 3)[..., 1:]
                dp = mask * (dout.double() @ v.double().repeat_interleave(2, 1).transpose(2, 3))
                ds = p * (dp - (dout.double() * out.detach().double()).sum(3, keepdim=True))
                dq, dk = torch.autograd.grad(x, (q, k), ds.detach())
                dv = ((p * mask).transpose(2, 3) @ dout.double()).unflatten(1, (2, 2)).sum(2)
                for mine, exact in zip(got, ((p * mask) @ v.double().repeat_interleave(2, 1), dq, dk, dv)):
                    self.assertLess(excess(numbers(mine).reshape(-1, 64), numbers(exact).reshape(-1, 64), UNIT["bfloat16"]), 1)

        def run():
            torch.manual_seed(5)
            return fa2c.attention(q, k, v, dropout_p=0.3)

        self.assertTrue(torch.equal(run(), run()))
        self.assertFalse(torch.equal(run(), fa2c.attention(q, k, v, dropout_p=0.3)))
        torch.manual_seed(5)
        kept_out = torch.utils.checkpoint.checkpoint(lambda q: fa2c.attention(q, k, v, dropout_p=0.3), q, use_reentrant=False)
        for mine, other in zip(torch.autograd.grad(kept_out.sum(), (q,)), torch.autograd.grad(run().sum(), (q,))):
            self.expect_close(mine, numbers(other))
        with self.assertRaisesRegex(ValueError, r"rng: got torch.int32 \(2,\); expected torch.int64"):
            fa2c.attention(q, k, v, dropout_p=0.5, rng=torch.zeros(2, dtype=torch.int32, device=DEVICE))

    def test_autocast(self):
        q, k, v = self.three(1, 2, 1, 40, 50, 64, 64, dtype=torch.float32)
        with torch.autocast(DEVICE, torch.bfloat16):
            out = fa2c.attention(q, k, v)
        self.assertEqual(out.dtype, torch.bfloat16)
        out.sum().backward()
        self.assertEqual(q.grad.dtype, torch.float32)
        with self.assertRaisesRegex(TypeError, "q: dtype is torch.float32; expected torch.bfloat16 or torch.float16"):
            fa2c.attention(q, k, v)

    def test_what_is_wrong(self):
        q, k, v = self.three(1, 2, 1, 8, 8, 64, 64)
        fa2c.attention(q, k, v)
        for error, text, given in (
            (TypeError, "k: got list; expected a PyTorch tensor, as q is", (q, [1], v)),
            (TypeError, "v: dtype is torch.float16, that of q is torch.bfloat16", (q, k, v.half())),
            (ValueError, "k: the tensor is on meta; expected CUDA", (q, k.to("meta"), v)),
            (ValueError, "k: the head dim is 72, that of q is 64", (q, self.draw(1, 1, 8, 72), v)),
            (ValueError, "v: the seqlen is 16, that of k is 8", (q, k, self.draw(1, 1, 16, 64))),
            (ValueError, r"q: the shape is \(8, 64\); expected 4 dimensions", (q[0, 0], k, v)),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                fa2c.attention(*given)
        with self.assertRaisesRegex(NotImplementedError, "torch.func's transforms"):
            torch.vmap(lambda x: fa2c.attention(x, k, v))(q[None])

    def test_no_memory_is_kept(self):
        q, k, v = self.three(1, 1, 1, 8, 8, 16, 16)

        def often(count):
            for _ in range(count):
                fa2c.attention(q, k, v).sum().backward()
            gc.collect()
            return len(gc.get_objects())

        before = often(20)
        self.assertLess(often(50) - before, 50)


if __name__ == "__main__":
    unittest.main()
