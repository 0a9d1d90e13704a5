"""flash_attn's functions."""

import inspect
import unittest

import test_torch

if test_torch.torch is not None:
    import numpy as np
    import torch
    from reference import attention, gradients

    import fa2c
    from fa2c import flash_attn_interface as fa

numbers, DEVICE = test_torch.numbers, test_torch.DEVICE
setUpModule = test_torch.setUpModule


def swapped(x):
    return numbers(x).swapaxes(1, 2)


class Functions(test_torch.Case):
    def draw_bshd(self, b, s, h, d, **options):
        return self.draw(b, s, h, d, **options)

    def expect(self, out, q, k, v, causal=False, scale=None):
        wanted = attention(*map(swapped, (q, k, v)), causal, scale)[0]
        self.expect_close(out.transpose(1, 2), wanted)

    def test_signatures(self):
        """The positions of flash_attn 2.8."""
        common = ["dropout_p", "softmax_scale", "causal", "window_size", "softcap", "alibi_slopes", "deterministic",
                  "return_attn_probs"]
        varlen = ["cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k"]
        for function, names in (
            (fa.flash_attn_func, ["q", "k", "v", *common]),
            (fa.flash_attn_varlen_func, ["q", "k", "v", *varlen, *common, "block_table"]),
            (fa.flash_attn_with_kvcache, [
                "q", "k_cache", "v_cache", "k", "v", "rotary_cos", "rotary_sin", "cache_seqlens", "cache_batch_idx",
                "cache_leftpad", "block_table", "softmax_scale", "causal", "window_size", "softcap", "rotary_interleaved",
                "alibi_slopes", "num_splits", "return_softmax_lse"]),
        ):
            parameters = inspect.signature(function).parameters.values()
            self.assertEqual([p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD], names)

    def test_forward_and_backward(self):
        q, k, v = self.draw(2, 30, 4, 64), self.draw(2, 40, 2, 64), self.draw(2, 40, 2, 64)
        for causal in (False, True):
            out, lse, none = fa.flash_attn_func(q, k, v, 0.0, 0.2, causal, return_attn_probs=True)
            self.expect(out, q, k, v, causal, 0.2)
            self.assertIsNone(none)
            np.testing.assert_allclose(numbers(lse), attention(*map(swapped, (q, k, v)), causal, 0.2)[1], rtol=1e-5, atol=1e-5)
            dout = torch.randn_like(out)
            got = torch.autograd.grad(out, (q, k, v), dout)
            for g, wanted in zip(got, gradients(*map(swapped, (q, k, v, out, dout)), causal, 0.2)):
                self.expect_close(g.transpose(1, 2), wanted)

    def test_packed(self):
        qkv = self.draw(2, 24, 3, 2, 64)
        out = fa.flash_attn_qkvpacked_func(qkv, causal=True)
        self.expect(out, *qkv.unbind(2), True)
        (dqkv,) = torch.autograd.grad(out, qkv, torch.ones_like(out))
        self.assertEqual(dqkv.shape, qkv.shape)
        q, kv = self.draw(2, 24, 4, 64), qkv[:, :, 1:]
        self.expect(fa.flash_attn_kvpacked_func(q, kv), q, *kv.unbind(2))
        with self.assertRaisesRegex(ValueError, r"qkv: the shape is \(2, 24, 2, 2, 64\); expected 5 dimensions, of which 2 has"):
            fa.flash_attn_qkvpacked_func(kv)

    def test_head_dims_that_are_padded(self):
        q, k, v = (self.draw(1, 24, 2, 59) for _ in range(3))
        out = fa.flash_attn_func(q, k, v, causal=True)
        self.assertEqual(out.shape, q.shape)
        self.expect(out, q, k, v, True)
        out.sum().backward()
        self.assertEqual(q.grad.shape, q.shape)

    def test_windows_that_are_masks(self):
        q, k, v = self.draw(1, 20, 2, 64), self.draw(1, 30, 2, 64), self.draw(1, 30, 2, 64)
        for window, causal, mask in (((-1, 0), False, True), ((29, 19), False, False), ((100, -1), True, True),
                                     ((None, None), False, False), ((-1, 5), True, True)):
            self.expect(fa.flash_attn_func(q, k, v, causal=causal, window_size=window), q, k, v, mask)

    def test_programs(self):
        """Windows, caps and slopes as flash_attn defines them: aligned to the last query and the last key."""
        q, k, v = self.draw(2, 20, 4, 64), self.draw(2, 30, 2, 64), self.draw(2, 30, 2, 64)
        slopes = torch.rand(2, 4, device=DEVICE)
        distance = np.arange(20)[:, None] + 10 - np.arange(30)
        biased = lambda x: x - numbers(slopes)[:, :, None, None] * abs(distance)  # noqa: E731
        for options, change in (
            (dict(window_size=(3, 2)), lambda x: np.where((distance <= 3) & (distance >= -2), x, -np.inf)),
            (dict(window_size=(3, 2), causal=True), lambda x: np.where((distance <= 3) & (distance >= 0), x, -np.inf)),
            (dict(softcap=1.5), lambda x: 1.5 * np.tanh(x / 1.5)),
            (dict(alibi_slopes=slopes), biased),
            (dict(alibi_slopes=slopes, softcap=2.0, causal=True), lambda x: np.where(distance >= 0, biased(2 * np.tanh(x / 2)), -np.inf)),
        ):
            with self.subTest(**options):
                out = fa.flash_attn_func(q, k, v, **options)
                self.expect_close(out.transpose(1, 2), attention(*map(swapped, (q, k, v)), change=change)[0])
                self.assertTrue(torch.equal(fa.flash_attn_with_kvcache(q, k, v, **options), out))
                out.sum().backward()

    def test_variable_lengths_that_are_equal(self):
        q, k, v = self.draw(60, 4, 64), self.draw(75, 2, 64), self.draw(75, 2, 64)
        starts = [torch.arange(0, 4, dtype=torch.int32, device=DEVICE) * length for length in (20, 25)]
        out, lse, _ = fa.flash_attn_varlen_func(q, k, v, *starts, 20, 25, causal=True, return_attn_probs=True)
        q3, k3, v3 = (x.unflatten(0, (3, -1)) for x in (q, k, v))
        self.expect(out.unflatten(0, (3, 20)), q3, k3, v3, True)
        wanted = attention(*map(swapped, (q3, k3, v3)), True)[1]
        np.testing.assert_allclose(numbers(lse), wanted.swapaxes(0, 1).reshape(4, 60), rtol=1e-5, atol=1e-5)
        qkv = self.draw(60, 3, 2, 64)
        out = fa.flash_attn_varlen_qkvpacked_func(qkv, starts[0], 20)
        self.expect(out.unflatten(0, (3, 20)), *(x.unflatten(0, (3, 20)) for x in qkv.unbind(1)))

    def test_variable_lengths(self):
        """Each sequence as if it were alone, empty ones too, forward and backward."""
        of_q, of_k = (9, 20, 0, 31), (30, 20, 5, 4)
        self.expect_sequences(of_q, of_q, same=True)
        self.expect_sequences(of_q, of_k, same=False)

    def expect_sequences(self, of_q, of_k, same):
        starts_q, starts_k = (torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32, device=DEVICE) for lengths in (of_q, of_k))
        q, k, v = self.draw(sum(of_q), 4, 64), self.draw(sum(of_k), 2, 64), self.draw(sum(of_k), 2, 64)
        dout = torch.randn_like(q)
        for options in ({}, dict(causal=True), dict(causal=True, window_size=(4, -1), softcap=2.0), dict(window_size=(5, 2))):
            with self.subTest(of_k=of_k, **options):
                out, lse, _ = fa.flash_attn_varlen_func(q, k, v, starts_q, starts_q if same else starts_k, max(of_q), max(of_k),
                                                        return_attn_probs=True, **options)
                got = out, *torch.autograd.grad(out, (q, k, v), dout)
                wanted = [torch.zeros_like(x, dtype=torch.float32) for x in (q, q, k, v)]
                for i in range(len(of_q)):
                    at_q, at_k = (slice(int(starts[i]), int(starts[i + 1])) for starts in (starts_q, starts_k))
                    alone = [x[None].detach().requires_grad_() for x in (q[at_q], k[at_k], v[at_k])]
                    one, one_lse, _ = fa.flash_attn_func(*alone, return_attn_probs=True, **options)
                    np.testing.assert_allclose(numbers(lse[:, at_q]), numbers(one_lse[0]), rtol=1e-4, atol=1e-4)
                    for x, at, y in zip(wanted, (at_q, at_q, at_k, at_k), (one, *torch.autograd.grad(one, alone, dout[at_q][None]))):
                        x[at] = y[0].detach()
                for x, y in zip(got, wanted):
                    self.expect_close(x, numbers(y))

    def test_caches(self):
        q, new, cache = self.draw(2, 1, 4, 64), self.draw(2, 1, 2, 64, grad=False), self.draw(2, 40, 2, 64, grad=False)
        k_cache, v_cache = cache.clone(), cache.clone() * 2
        out, lse = fa.flash_attn_with_kvcache(q, k_cache, v_cache, new, 3 * new, cache_seqlens=30, causal=True,
                                              return_softmax_lse=True)
        k = torch.cat([cache[:, :30], new], 1)
        v = torch.cat([2 * cache[:, :30], 3 * new], 1)
        self.expect(out, q, k, v)
        self.assertTrue(torch.equal(k_cache[:, :31], k) and torch.equal(v_cache[:, :31], v))
        self.assertTrue(torch.equal(k_cache[:, 31:], cache[:, 31:]))
        self.expect(fa.flash_attn_with_kvcache(q, k_cache, v_cache), q, k_cache, v_cache)
        for options, error, text in (
            (dict(cache_seqlens=41), ValueError, "cache_seqlens is 41; the cache has 40 keys"),
            (dict(k=new, v=new, cache_seqlens=40), ValueError, "k: 1 keys behind 40 do not fit the cache"),
            (dict(cache_seqlens=torch.tensor([3, 4])), ValueError, "cache_seqlens: got torch.int64 .*expected torch.int32"),
            (dict(cache_seqlens=torch.ones(2, dtype=torch.int32, device=DEVICE), alibi_slopes=q), NotImplementedError, "alibi_slopes = "),
            (dict(block_table=new), NotImplementedError, "block_table = "),
            (dict(rotary_cos=new), NotImplementedError, "rotary_cos = "),
        ):
            with self.assertRaisesRegex(error, text):
                fa.flash_attn_with_kvcache(q, k_cache, v_cache, **options)

    def test_caches_of_several_lengths(self):
        """Each sequence as if it were alone, its new keys in their places and nothing else of the cache touched."""
        for sq, options in ((1, {}), (3, dict(causal=True)), (3, dict(causal=True, window_size=(6, -1), softcap=2.0)), (2, dict(window_size=(9, 1)))):
            with self.subTest(sq=sq, **options):
                q, new = self.draw(3, sq, 4, 64, grad=False), self.draw(3, sq, 2, 64, grad=False)
                k_cache, v_cache = self.draw(3, 40, 2, 64, grad=False), self.draw(3, 40, 2, 64, grad=False)
                k_wanted, v_wanted = k_cache.clone(), v_cache.clone()
                lengths = torch.tensor([5, 0, 40 - sq], dtype=torch.int32, device=DEVICE)
                out = fa.flash_attn_with_kvcache(q, k_cache, v_cache, new, new * 2, cache_seqlens=lengths, **options)
                for b, length in enumerate((5, 0, 40 - sq)):
                    k_wanted[b, length:length + sq], v_wanted[b, length:length + sq] = new[b], new[b] * 2
                    alone = fa.flash_attn_with_kvcache(q[b:b + 1], k_wanted[b:b + 1], v_wanted[b:b + 1], cache_seqlens=length + sq, **options)
                    self.expect_close(out[b:b + 1], numbers(alone))
                self.assertTrue(torch.equal(k_cache, k_wanted) and torch.equal(v_cache, v_wanted))

    def test_what_is_refused_by_name(self):
        q = self.draw(1, 8, 2, 64)
        for options in (dict(qv=q), dict(q_descale=q), dict(attention_chunk=128)):
            with self.assertRaisesRegex(NotImplementedError, f"{[*options][0]} = .* is not supported yet"):
                fa.flash_attn_func(q, q, q, **options)
        with self.assertRaisesRegex(ValueError, "dropout_p is 1.0; expected a probability from 0 to 0.998"):
            fa.flash_attn_func(q, q, q, dropout_p=1.0)
        self.assertFalse(torch.equal(fa.flash_attn_func(q, q, q, dropout_p=0.5), fa.flash_attn_func(q, q, q)))
        fa.flash_attn_func(q, q, q, num_splits=4, pack_gqa=True, sm_margin=8)
        starts = torch.tensor([0, 3, 8], dtype=torch.int32, device=DEVICE)
        other = torch.tensor([0, 2, 8], dtype=torch.int32, device=DEVICE)
        of = lambda starts, **options: fa.flash_attn_varlen_func(q[0], q[0], q[0], starts, starts, 6, 6, **options)  # noqa: E731
        self.assertFalse(torch.equal(of(starts, num_splits=4), of(other)))
        before = of(starts)
        starts[1] = 2
        self.assertTrue(torch.equal(of(starts), of(other)))
        self.assertFalse(torch.equal(of(starts), before))
        for options in (dict(qv=q), dict(alibi_slopes=q), dict(seqused_q=q), dict(block_table=q)):
            with self.assertRaisesRegex(NotImplementedError, f"{[*options][0]} = .* is not supported yet"):
                of(starts, **options)
        with self.assertRaisesRegex(ValueError, "cu_seqlens_q: got torch.int64 .*expected torch.int32"):
            of(starts.long())


if __name__ == "__main__":
    unittest.main()
