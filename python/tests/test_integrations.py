"""PyTorch's registry of flash-attention implementations, and transformers."""

import unittest
from unittest import mock

import test_torch

if test_torch.torch is not None:
    import torch
    from reference import attention, gradients

    from fa2c.integrations import sdpa
try:
    import transformers
except ImportError:
    transformers = None

numbers, DEVICE = test_torch.numbers, test_torch.DEVICE
setUpModule = test_torch.setUpModule


class Operations(test_torch.Case):
    """What is registered for aten's operations, called by itself: registered for CUDA, it meets no CPU tensors."""

    def expect(self, heads_first, forward, backward, q, k, v, causal):
        exchange = (lambda x: numbers(x)) if heads_first else (lambda x: numbers(x).swapaxes(1, 2))
        back = (lambda x: x) if heads_first else (lambda x: x.transpose(1, 2))
        out, lse, *rest = forward(q, k, v)
        self.expect_close(back(out), attention(*map(exchange, (q, k, v)), causal)[0])
        dout = torch.randn_like(out)
        wanted = gradients(*map(exchange, (q, k, v, out, dout)), causal)
        for got, expected in zip(backward(dout, q, k, v, out, lse, rest), wanted):
            self.expect_close(back(got), expected)

    def test_sdpa(self):
        q, k, v = self.three(1, 2, 1, 24, 32, 64, 64, grad=False)
        self.expect(True, lambda *t: sdpa.sdpa_forward(*t, 0.0, True),
                    lambda dout, q, k, v, out, lse, rest: sdpa.sdpa_backward(
                        dout, q, k, v, out, lse, *rest[:4], 0.0, True, *rest[4:6]), q, k, v, True)
        with self.assertRaisesRegex(NotImplementedError, "dropout_p = 0.1 is not supported yet"):
            sdpa.sdpa_forward(q, k, v, 0.1)

    def test_flash(self):
        q, k, v = (x.transpose(1, 2).contiguous() for x in self.three(1, 2, 1, 24, 32, 64, 64, grad=False))
        self.expect(False, lambda *t: sdpa.flash_forward(*t, None, None, 24, 32, 0.0, False, False),
                    lambda dout, q, k, v, out, lse, rest: sdpa.flash_backward(
                        dout, q, k, v, out, lse, None, None, 24, 32, 0.0, False, *rest[:2]), q, k, v, False)
        with self.assertRaisesRegex(NotImplementedError, "cum_seq_q = .* is not supported yet"):
            sdpa.flash_forward(q, k, v, k, k, 24, 32, 0.0, False, False)

    @unittest.skipUnless(hasattr(test_torch.torch.nn.attention if test_torch.torch else None, "register_flash_attention_impl"),
                         "PyTorch has no registry of flash-attention implementations")
    def test_registry(self):
        sdpa.register()
        self.assertIn("fa2c", torch.nn.attention.list_flash_attention_impls())
        self.assertIsNone(torch.nn.attention.current_flash_attention_impl())
        sdpa.activate()
        self.addCleanup(sdpa.restore)
        self.assertEqual(torch.nn.attention.current_flash_attention_impl(), "fa2c")
        if DEVICE != "cpu":
            q, k, v = self.three(1, 4, 4, 64, 64, 64, 64)
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
                out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            self.expect_close(out, attention(*map(numbers, (q, k, v)), True)[0])
            dout = torch.randn_like(out)
            for got, wanted in zip(torch.autograd.grad(out, (q, k, v), dout),
                                   gradients(*map(numbers, (q, k, v, out, dout)), True)):
                self.expect_close(got, wanted)


@unittest.skipIf(transformers is None, "transformers is not installed")
class Transformers(test_torch.Case):
    def model(self, implementation, **options):
        from fa2c.integrations import transformers as ours

        ours.register()
        torch.manual_seed(7)
        config = transformers.MistralConfig(
            vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, attn_implementation=implementation, **options)
        return transformers.MistralForCausalLM(config).to(DEVICE, torch.bfloat16)

    def expect_as_sdpa(self, **options):
        tokens = torch.randint(0, 64, (2, 24), device=DEVICE)
        ours, theirs = (self.model(name, **options).eval() for name in ("fa2c", "sdpa"))
        with torch.no_grad():
            got, wanted = ours(tokens).logits.float(), theirs(tokens).logits.float()
        self.assertLess((got - wanted).abs().max().item(), 0.05 * wanted.abs().max().item())
        return ours, theirs, tokens

    def test_causal(self):
        ours, theirs, tokens = self.expect_as_sdpa(sliding_window=None)
        for model in (ours, theirs):
            model(tokens, labels=tokens).loss.backward()
        got, wanted = (m.model.layers[0].self_attn.q_proj.weight.grad.float() for m in (ours, theirs))
        self.assertLess((got - wanted).norm().item(), 0.05 * wanted.norm().item())
        with torch.no_grad():
            got, wanted = (m.generate(tokens[:, :9], max_new_tokens=4, do_sample=False) for m in (ours, theirs))
        self.assertEqual(got.shape, wanted.shape)

    def test_windows(self):
        ours, theirs, tokens = self.expect_as_sdpa(sliding_window=5)
        self.expect_same_generated(ours, theirs, tokens)

    def expect_same_generated(self, ours, theirs, tokens, **options):
        """Behind a cache: the scores of each step, on the tokens that the other one chose."""
        with torch.no_grad():
            wanted = theirs.generate(tokens, max_new_tokens=6, do_sample=False, return_dict_in_generate=True, **options).sequences
            cache_ours, cache_theirs, start, seen = None, None, 0, options.get("attention_mask")
            for end in range(tokens.shape[1], wanted.shape[1]):
                rest = {} if seen is None else {"attention_mask": torch.nn.functional.pad(seen, (0, end - seen.shape[1]), value=1)}
                got = ours(wanted[:, start:end], past_key_values=cache_ours, use_cache=True, **rest)
                expected = theirs(wanted[:, start:end], past_key_values=cache_theirs, use_cache=True, **rest)
                cache_ours, cache_theirs, start = got.past_key_values, expected.past_key_values, end
                got, expected = got.logits[:, -1].float(), expected.logits[:, -1].float()
                self.assertLess((got - expected).abs().max().item(), 0.05 * expected.abs().max().item())

    def test_padding(self):
        """On the left, as for generation, with and without a window; what is at padding is nobody's."""
        tokens, seen = torch.randint(0, 64, (2, 24), device=DEVICE), torch.ones(2, 24, dtype=torch.long, device=DEVICE)
        seen[0, :7] = 0
        for window in (None, 5):
            ours, theirs = (self.model(name, sliding_window=window).eval() for name in ("fa2c", "sdpa"))
            with torch.no_grad():
                got, wanted = (m(tokens, attention_mask=seen).logits.float()[seen.bool()] for m in (ours, theirs))
            self.assertLess((got - wanted).abs().max().item(), 0.05 * wanted.abs().max().item())
            self.expect_same_generated(ours, theirs, tokens, attention_mask=seen)
        ours(tokens, attention_mask=seen, labels=tokens.masked_fill(seen == 0, -100)).loss.backward()
        self.assertTrue(all(torch.isfinite(p.grad).all() for p in ours.parameters() if p.grad is not None))

    def test_sinks(self):
        """gpt-oss: sinks, and a sliding window in every other layer, with padding; against its eager attention."""
        if not hasattr(transformers, "GptOssConfig"):
            self.skipTest("this version of transformers has no gpt-oss")
        models = []
        for implementation in ("fa2c", "eager"):
            self.model("fa2c")  # which registers
            torch.manual_seed(5)
            config = transformers.GptOssConfig(
                vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                head_dim=16, num_local_experts=2, num_experts_per_tok=1, sliding_window=6, attn_implementation=implementation)
            models.append(transformers.GptOssForCausalLM(config).to(DEVICE, torch.bfloat16).eval())
        for model in models:
            for layer in model.model.layers:
                torch.manual_seed(6)
                layer.self_attn.sinks.data.normal_()
        tokens, seen = torch.randint(0, 64, (2, 24), device=DEVICE), torch.ones(2, 24, dtype=torch.long, device=DEVICE)
        for padded in (0, 5):
            seen[0, :padded] = 0
            with torch.no_grad():
                got, wanted = (model(tokens, attention_mask=seen).logits.float()[seen.bool()] for model in models)
            self.assertLess((got - wanted).abs().mean().item(), 0.02 * wanted.abs().mean().item())
        models[0](tokens, labels=tokens).loss.backward()
        self.assertGreater(models[0].model.layers[0].self_attn.sinks.grad.abs().max().item(), 0)

    def test_no_step_of_a_cache_compiles(self):
        from fa2c import kernels

        ours = self.model("fa2c", sliding_window=5).eval()
        tokens = torch.randint(0, 64, (1, 9), device=DEVICE)
        with torch.no_grad():
            ours.generate(tokens, max_new_tokens=3, do_sample=False)
            with mock.patch.object(kernels, "compile_ptx", side_effect=AssertionError):
                ours.generate(tokens, max_new_tokens=8, do_sample=False)


if __name__ == "__main__":
    unittest.main()
