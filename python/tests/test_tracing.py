"""Programs of callables: what they compute, on both families' kernels, and what cannot be traced."""

import functools
import math
import os
import unittest
import weakref
from unittest import mock

import test_arrays

import fa2c
from fa2c import array_attention, kernels, tracing
from fa2c.specification import Specification

np = test_arrays.np
setUpModule = test_arrays.setUpModule
if np is not None:
    from reference import UNIT, attention, excess
try:
    import torch
    from torch.nn.attention import flex_attention
except ImportError:
    torch = None

CAP, WINDOW, PREFIX = 5.0, 13, 9


def relative(score, b, h, q, kv):
    return score + (q - kv)


def alibi(score, b, h, q, kv):
    return score + (kv - q) * 0.25 ** (h + 1)


def many(score, b, h, q, kv):
    near = abs(q - kv) % 7 // 2 + ((q * 3 - kv) // 5) % 4 - (q >> 1 & 3 ^ kv & 1 | 2)
    x = score * near - score ** 2 / 4 + (-score) ** 3 * 0.125 + 1 / (2 + abs(score))
    return x + (score > 0) * (q < kv) - (score / 2) % 1.5 + score // 0.75 + 2 ** (score - 1)


def window(b, h, q, kv):
    return (q >= kv) & (q - kv <= WINDOW)


def prefix(b, h, q, kv):
    return (kv < PREFIX + b) | (kv <= q)


def dilated(b, h, q, kv):
    return ((q - kv) % (h + 2) == 0) & ~(kv > q)


@unittest.skipIf(np is None, "NumPy is not installed")
@unittest.skipUnless(test_arrays.simulator_is_there, "this build of the runtime has no simulator")
class Computed(unittest.TestCase):
    """Against the callable itself on arrays of float64 and int64."""

    def expect(self, score_mod=None, mask_mod=None, causal=False, devices=("sim",)):
        b, h, sq, sk = 2, 2, 24, 40
        random = np.random.default_rng(5)
        q, k, v = (random.standard_normal(shape).astype("float16")
                   for shape in ((b, h, sq, 64), (b, 1, sk, 64), (b, 1, sk, 64)))
        at = np.ogrid[:b, :h, :sq, :sk]

        def change(x):
            x = x if score_mod is None else score_mod(x, *at)
            return x if mask_mod is None else np.where(mask_mod(*at), x, -np.inf)

        wanted, lse = attention(q, k, v, causal, change=change)
        for device in devices:
            with mock.patch.dict(os.environ, {"FA2_SIMULATOR": device}), mock.patch.object(array_attention, "kernels",
                                                                                          kernels.Kernels()):
                out, got_lse = fa2c.attention(q, k, v, causal=causal, score_mod=score_mod, mask_mod=mask_mod, return_lse=True)
            self.assertLess(excess(out, wanted, UNIT["float16"]), 1)
            np.testing.assert_allclose(got_lse, lse, rtol=2e-5, atol=2e-5)

    def test_score_programs(self):
        for score_mod in (relative, alibi, many):
            with self.subTest(score_mod.__name__):
                self.expect(score_mod, devices=("sim", "sim:sm_90?strict"))

    def test_masks(self):
        for mask_mod in (window, prefix, dilated, lambda b, h, q, kv: q >= kv, lambda b, h, q, kv: True,
                         lambda b, h, q, kv: (b > 0) & (kv < 5)):
            with self.subTest(mask_mod.__name__):
                self.expect(mask_mod=mask_mod)

    def test_both_with_a_mask_of_the_kernels(self):
        for causal in (False, True):
            self.expect(alibi, window, causal)

    def test_kinds(self):
        self.expect(lambda s, b, h, q, kv: s + np.float64(0.5) * (q == kv) + True - (b < 1))
        self.expect(lambda s, b, h, q, kv: s * 1e-3 + 2 ** (0.0 - h) + (q / (kv + 1)) * 0.01)


class Text(unittest.TestCase):
    def test_only_what_is_needed_once(self):
        text = fa2c.program(lambda s, b, h, q, kv: (s * 2.0, s + (q - kv) * (q - kv))[1]).text
        self.assertEqual(text, """\
  ^bb0(%score: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index):
    %2 = arith.index_cast %q_idx : index to i32
    %3 = arith.index_cast %kv_idx : index to i32
    %6 = arith.subi %2, %3 : i32
    %7 = arith.muli %6, %6 : i32
    %8 = arith.sitofp %7 : i32 to f32
    %9 = arith.addf %score, %8 : f32
    fa2.yield %9 : f32""")

    def test_constants_have_their_bits(self):
        text = fa2c.program(lambda s, b, h, q, kv: s * 0.1 - math.inf).text
        self.assertIn("arith.constant 0x3DCCCCCD : f32", text)
        self.assertIn("arith.constant 0x7F800000 : f32", text)

    def test_masks_that_kernels_know(self):
        for mask_mod, mask, has_text in ((lambda b, h, q, kv: q >= kv, "top_left", False), (window, "top_left", True),
                                         (prefix, False, True), (lambda b, h, q, kv: kv > q, False, True),
                                         (lambda b, h, q, kv: True, False, False)):
            program = fa2c.program(mask_mod=mask_mod)
            self.assertEqual((program.mask, program.text is not None), (mask, has_text))

    def test_a_program_is_traced_once_until_it_changes(self):
        slope, calls = 0.5, []

        def mod(score, b, h, q, kv):
            calls.append(0)
            return score * slope

        def trace(f):
            return tracing.trace(f, None, False)[1]

        first = trace(mod)
        calls_list = calls
        slope = 0.25
        self.assertNotEqual(trace(mod), first)
        self.assertEqual(len(calls_list), 2)
        global CAP  # noqa: PLW0603
        capped = lambda s, b, h, q, kv: s * CAP  # noqa: E731
        first = trace(capped)
        with mock.patch.object(tracing, "_trace", side_effect=AssertionError):
            self.assertIs(trace(capped), first)
        CAP = 6.0
        self.assertNotEqual(trace(capped), first)
        CAP = 5.0
        self.assertEqual(trace(capped), first)
        inner = lambda x: x * CAP  # noqa: E731
        outer = lambda s, b, h, q, kv: inner(s)  # noqa: E731
        text = trace(outer)
        CAP = 7.0
        self.assertNotEqual(trace(outer), text)
        inner = lambda x: x + CAP  # noqa: E731
        self.assertIn("addf", trace(outer))
        CAP, captured = 5.0, [1.0]
        listed = lambda s, b, h, q, kv: s * captured[0]  # noqa: E731
        text = trace(listed)
        captured[0] = 2.0
        self.assertNotEqual(trace(listed), text)
        texts = {trace(lambda s, b, h, q, kv, c=c: s + c) for c in (1, 2, 0.0, -0.0)}
        self.assertEqual(len(texts), 4)


class Refused(unittest.TestCase):
    def expect(self, error, text, score_mod=None, mask_mod=None):
        with self.assertRaisesRegex(error, text):
            fa2c.program(score_mod, mask_mod)

    def test_control_flow(self):
        def branch(score, b, h, q, kv):
            if q >= kv:
                return score
            return -math.inf

        self.expect(TypeError, r"score_mod: test_tracing.py:\d+: `if q >= kv:`: a condition needs a value that exists on the GPU "
                    r"only; use torch.where", branch)
        for mask_mod in (lambda b, h, q, kv: 0 < q < kv, lambda b, h, q, kv: q > kv and kv > 2, lambda b, h, q, kv: max(q, kv) > 3,
                         lambda b, h, q, kv: not q > kv):
            self.expect(TypeError, "mask_mod: test_tracing.py:.*needs a value that exists on the GPU only", None, mask_mod)
        self.expect(TypeError, r"float\(\) needs a value", lambda s, b, h, q, kv: float(s))
        self.expect(TypeError, "range", lambda s, b, h, q, kv: sum(range(q)))
        self.expect(TypeError, "math.exp|float", lambda s, b, h, q, kv: math.exp(s))

    def test_results(self):
        self.expect(TypeError, "score_mod: the result is i1; expected the new score", lambda s, b, h, q, kv: s > 0)
        self.expect(TypeError, "score_mod: the result is NoneType", lambda s, b, h, q, kv: None)
        self.expect(TypeError, "mask_mod: the result is i32; expected a boolean", None, lambda b, h, q, kv: q - kv)
        self.expect(ValueError, "mask_mod: the result is False: no row would see a key", None, lambda b, h, q, kv: False)
        self.expect(TypeError, "score_mod: got int; expected a function of", 3)
        self.expect(TypeError, "positional argument", lambda s, b, h: s)

    def test_operations(self):
        self.expect(NotImplementedError, "cbrt is not supported in a program; supported: abs, absolute, add",
                    lambda s, b, h, q, kv: s.cbrt())
        self.expect(NotImplementedError, "a power is supported of", lambda s, b, h, q, kv: s ** 0.5)
        self.expect(ValueError, "the integer 4294967296 does not fit 32 bits", lambda s, b, h, q, kv: s + (q + 2 ** 32))
        self.expect(ZeroDivisionError, "test_tracing.py:.*division by zero", lambda s, b, h, q, kv: s + q // 0)
        self.expect(TypeError, "a scalar, which has no elements", lambda s, b, h, q, kv: s[0])
        self.expect(TypeError, "& takes integers and booleans, got a float", lambda s, b, h, q, kv: s & 1)
        self.expect(TypeError, "expected a traced value or a number, got str", lambda s, b, h, q, kv: s + "1")

    @unittest.skipIf(np is None, "NumPy is not installed")
    def test_captured_arrays(self):
        table = np.ones(4)
        self.expect(NotImplementedError, r"a captured ndarray of shape \(4,\) is not supported here", lambda s, b, h, q, kv: table * s)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class OfPyTorch(unittest.TestCase):
    def test_functions(self):
        """Each function and method against PyTorch's own."""
        F = torch.nn.functional if torch else None
        mods = {
            "softcap": lambda s, b, h, q, kv: 5 * torch.tanh(s / 5),
            "where": lambda s, b, h, q, kv: torch.where((q - kv).abs() < 9, s, s - 3.0),
            "alibi": lambda s, b, h, q, kv: s + (kv - q) * torch.exp2(-((h + 1) * 8.0 / 4)),
            "clamp": lambda s, b, h, q, kv: s.clamp(min=-1.0).clamp(max=1.5) + torch.clamp(q - kv, -2, 2),
            "extremes": lambda s, b, h, q, kv: torch.maximum(s, s * 0 - 0.5) + torch.minimum(q, kv) * 0.01,
            "rounded": lambda s, b, h, q, kv: torch.floor(s) + s.ceil() * 0.5 + torch.trunc(s * 3) * 0.25,
            "divided": lambda s, b, h, q, kv: s + torch.div(q - kv, 3, rounding_mode="trunc") * 0.1
                       + torch.div(q - kv, 3, rounding_mode="floor") * 0.1 + torch.remainder(q - kv, 5) * 0.1
                       + torch.fmod(q - kv, 5) * 0.1,
            "sigmoid": lambda s, b, h, q, kv: torch.sigmoid(s) + F.relu(s) + s.sign() + torch.rsub(s, 1.0) + s.square(),
            "logical": lambda s, b, h, q, kv: s + torch.logical_and(q > kv, torch.logical_not(h > 0)).float()
                       + torch.logical_or(q > 9, kv > 9).to(torch.float32) + (q ^ kv).to(torch.float32) * 0.01,
            "filled": lambda s, b, h, q, kv: (s + torch.zeros_like(s) + torch.full_like(s, 0.25)).masked_fill(q == kv, -1.0),
            "power": lambda s, b, h, q, kv: torch.pow(s, 3) * 0.1 + 2.0 ** -(h + 1) + s ** -2 * 1e-3 + s ** 0,
            "exp": lambda s, b, h, q, kv: s.exp() * 0.1 + torch.exp2(s).mul(0.1).add(s, alpha=0.5),
            "infinite": lambda s, b, h, q, kv: torch.where(torch.isinf(s) | torch.isnan(s), 0.0, s),
        }
        torch.manual_seed(1)
        q, k, v = (torch.randn(2, 2, n, 64, dtype=torch.bfloat16) for n in (40, 50, 50))
        at = torch.meshgrid(*map(torch.arange, (2, 2, 40, 50)), indexing="ij")
        scores = (q.double() @ k.double().transpose(2, 3)) / 8
        for name, mod in mods.items():
            with self.subTest(name):
                wanted = torch.softmax(mod(scores, *at), -1) @ v.double()
                out = fa2c.attention(q, k, v, score_mod=mod)
                self.assertLess(excess(out.double().numpy(), wanted.numpy(), UNIT["bfloat16"]), 1)

    def test_masks_of_flex_attention(self):
        both = flex_attention.and_masks(window, prefix)
        either = flex_attention.or_masks(window, dilated)
        q, k, v = (torch.randn(2, 2, 40, 64, dtype=torch.bfloat16) for _ in range(3))
        at = torch.meshgrid(*map(torch.arange, (2, 2, 40, 40)), indexing="ij")
        scores = (q.double() @ k.double().transpose(2, 3)) / 8
        for mask_mod in (both, either):
            wanted = torch.softmax(scores.masked_fill(~mask_mod(*at), -math.inf), -1).nan_to_num(0) @ v.double()
            out = fa2c.attention(q, k, v, mask_mod=mask_mod)
            self.assertLess(excess(out.double().numpy(), wanted.numpy(), UNIT["bfloat16"]), 1)
        self.assertEqual(fa2c.program(mask_mod=flex_attention.and_masks(window, prefix)).mask, "top_left")

    def test_flex_attentions_functions(self):
        from fa2c import flex_attention as ours

        q, k = torch.randn(1, 4, 24, 64, dtype=torch.bfloat16), torch.randn(1, 2, 24, 64, dtype=torch.bfloat16)
        wanted = fa2c.attention(q, k, k, score_mod=relative, mask_mod=window)
        theirs = flex_attention.create_block_mask(window, None, None, 24, 24, device="cpu")
        for block_mask in (theirs, ours.create_block_mask(window, 1, None, 24, 24)):
            out = ours.flex_attention(q, k, k, relative, block_mask, enable_gqa=True)
            self.assertTrue(torch.equal(out, wanted))
        self.assertTrue(torch.equal(ours.flex_attention(q, q, q, None, flex_attention.create_block_mask(
            flex_attention.noop_mask, None, None, 24, 24, device="cpu")), fa2c.attention(q, q, q)))
        if hasattr(flex_attention, "AuxRequest"):
            out, aux = ours.flex_attention(q, q, q, relative, return_aux=flex_attention.AuxRequest(lse=True))
            exact, exact_lse = ours.flex_attention(q, q, q, relative, return_lse=True)
            self.assertTrue(torch.equal(out, exact) and torch.equal(aux.lse, exact_lse))
            self.assertIsNone(ours.flex_attention(q, q, q, relative, return_aux=flex_attention.AuxRequest())[1].lse)
            with self.assertRaisesRegex(NotImplementedError, "return_aux = .*its lse is"):
                ours.flex_attention(q, q, q, return_aux=flex_attention.AuxRequest(max_scores=True))
        for error, text, given in ((ValueError, "key: the number of heads is 2", (q, k, k)),
                                   (TypeError, "block_mask: got int", (q, q, q, None, 3))):
            with self.assertRaisesRegex(error, text):
                ours.flex_attention(*given)

    def captured(self, exact):
        """{name: (score_mod, mask_mod, the tensors that they capture)}; `exact`: the same in float64."""
        torch.manual_seed(3)

        def draw(*shape, dtype=torch.float32):
            x = torch.rand(shape).to(dtype)
            return (x.double() if exact else x).requires_grad_()

        slopes, temperature, table, shared = draw(2), draw(), draw(2, 89), draw(1, 1, 40, 50)
        per_batch, bias = draw(2, 2, dtype=torch.bfloat16), draw(2, 2, 40, 50, dtype=torch.float16)
        documents = torch.sort(torch.randint(3, (2, 50)))[0]
        visible = torch.rand(50) < 0.7
        small = torch.randint(0, 3, (50,), dtype=torch.uint8)
        return {
            "slopes": (lambda s, b, h, q, kv: s + slopes[h] * (kv - q), None, [slopes]),
            "temperature": (lambda s, b, h, q, kv: temperature * s + (s - temperature) * temperature, None, [temperature]),
            "of batch and head": (lambda s, b, h, q, kv: s * per_batch[b, h], None, [per_batch]),
            "table": (lambda s, b, h, q, kv: s + table[h, q - kv + 49], None, [table]),
            "bias": (lambda s, b, h, q, kv: s + bias[b, h, q, kv], None, [bias]),
            "two": (lambda s, b, h, q, kv: (s + shared[0, 0, q, kv]) * slopes[h], None, [shared, slopes]),
            "documents": (None, lambda b, h, q, kv: documents[b, q] == documents[b, kv], []),
            "kept keys": (lambda s, b, h, q, kv: s + small[kv] * slopes[h], lambda b, h, q, kv: visible[kv], [slopes]),
        }

    def test_captured_tensors(self):
        """Values and gradients, of tensors too, in both orders of dimensions, against PyTorch's in float64."""
        torch.manual_seed(2)
        at = torch.meshgrid(*map(torch.arange, (2, 2, 40, 50)), indexing="ij")
        q, k, v = (torch.randn(2, 2, n, 64, dtype=torch.bfloat16, requires_grad=True) for n in (40, 50, 50))
        dout = torch.randn(2, 2, 40, 64, dtype=torch.bfloat16)
        for layout in ("bhsd", "bshd"):
            order = (lambda x: x) if layout == "bhsd" else (lambda x: x.transpose(1, 2))
            of_float64 = self.captured(exact=True)
            for name, (score_mod, mask_mod, tensors) in self.captured(exact=False).items():
                with self.subTest(name, layout=layout):
                    out = order(fa2c.attention(*map(order, (q, k, v)), score_mod=score_mod, mask_mod=mask_mod, layout=layout))
                    got = out, *torch.autograd.grad(out, (q, k, v, *tensors), dout)
                    self.assertEqual([x.dtype for x in got[4:]], [x.dtype for x in tensors])
                    score_mod, mask_mod, tensors = of_float64[name]
                    scores = (q.double() @ k.double().transpose(2, 3)) / 8
                    scores = scores if score_mod is None else score_mod(scores, *at)
                    scores = scores if mask_mod is None else scores.masked_fill(~mask_mod(*at), -math.inf)
                    p = torch.softmax(scores, -1).nan_to_num(0)
                    # With delta of the rounded out, as docs/contract.md has it.
                    ds = p * (dout.double() @ v.double().transpose(2, 3) - (dout.double() * out.detach().double()).sum(-1, keepdim=True))
                    dq, dk, *rest = torch.autograd.grad(scores, (q, k, *tensors), ds.detach())
                    wanted = p @ v.double(), dq, dk, p.transpose(2, 3) @ dout.double(), *rest
                    for x, y in zip(got, wanted):
                        self.assertEqual(x.shape, y.shape)
                        x, y = (z.detach().double().reshape(1, -1) if z.dim() < 3 else z.detach().double() for z in (x, y))
                        self.assertLess(excess(x.numpy(), y.numpy(), UNIT["bfloat16"]), 1)

    def test_captured_tensors_are_read_at_each_launch(self):
        """In place, another tensor of the same kind, or the other of two: nothing is compiled, nothing is stale."""
        q = torch.randn(1, 2, 24, 64, dtype=torch.bfloat16)
        first, second = torch.rand(2), torch.rand(2)
        mod = lambda s, b, h, i, j: s + first[h] * j + second[h] * i  # noqa: E731

        def expect():
            wanted = fa2c.attention(q, q, q, score_mod=lambda s, b, h, i, j, x=first.tolist(), y=second.tolist():
                                    s + torch.where(h == 0, x[0], x[1]) * j + torch.where(h == 0, y[0], y[1]) * i)
            with mock.patch.object(kernels, "compile_ptx", side_effect=AssertionError):
                got = fa2c.attention(q, q, q, score_mod=mod)
            self.assertLess((got - wanted).abs().max().item(), 0.02)

        fa2c.attention(q, q, q, score_mod=mod)
        expect()
        first.mul_(3)
        expect()
        first = torch.rand(2)
        expect()
        first, second = second, first
        expect()
        documents = torch.tensor([0] * 12 + [1] * 12)
        mask = lambda b, h, i, j: documents[i] == documents[j]  # noqa: E731
        out = fa2c.attention(q, q, q, mask_mod=mask)
        documents[:] = 5
        self.assertFalse(torch.equal(fa2c.attention(q, q, q, mask_mod=mask), out))
        self.assertTrue(torch.equal(fa2c.attention(q, q, q, mask_mod=mask), fa2c.attention(q, q, q, mask_mod=lambda b, h, i, j: b >= 0)))
        documents[0] = 2 ** 40
        with self.assertRaisesRegex(ValueError, "a captured tensor has values from 5 to 1099511627776; kernels read 32 bits"):
            fa2c.attention(q, q, q, mask_mod=mask)

    def test_captured_tensors_by_several_indices(self):
        table = torch.randn(2, 3)
        text = fa2c.program(lambda s, b, h, q, kv: s + table[b, h]).text
        self.assertEqual(fa2c.program(lambda s, b, h, q, kv: s + table[b][h]).text, text)
        self.assertIn("%x0: tensor<?x?xf32>):", text)
        self.assertIn("tensor.extract %x0[%b, %h] : tensor<?x?xf32>", text)

    def test_what_was_traced_is_found_again(self):
        """Without a look at values, as long as nothing changes; a wrapper has its function's attributes, and is another one."""
        table, other = torch.rand(2), torch.rand(2)
        mod = lambda s, b, h, i, j: s + table[h]  # noqa: E731
        wrapper = functools.wraps(mod)(lambda s, b, h, i, j: s * other[h])
        for mask_mod in (None, window):
            first = tracing.trace(mod, mask_mod, False)
            with mock.patch.object(tracing, "Signature", side_effect=AssertionError):
                self.assertIs(tracing.trace(mod, mask_mod, False), first)
        copied = functools.wraps(mod)(wrapper)
        self.assertIs(copied._fa2c_latest, mod._fa2c_latest)
        text, operands = tracing.trace(copied, window, False)[1:]
        self.assertIn("mulf", text)
        self.assertIs(operands[0], other)
        self.assertIsNone(tracing.trace(mod, prefix, False)[0] or None)
        table = torch.rand(2)
        self.assertIs(tracing.trace(mod, prefix, False)[2][0], table)

    def test_captured_tensors_are_not_kept(self):
        q = torch.randn(1, 2, 8, 64, dtype=torch.bfloat16)
        gone = []
        for _ in range(3):
            slopes = torch.rand(2)
            gone.append(weakref.ref(slopes))
            fa2c.attention(q, q, q, score_mod=lambda s, b, h, i, j, x=slopes: s * x[h])
            del slopes
        self.assertEqual([r() for r in gone], [None] * 3)

    def test_captured_tensors_that_do_not_fit(self):
        q = torch.randn(1, 2, 24, 64, dtype=torch.bfloat16, requires_grad=True)
        slopes, meta = torch.rand(3, requires_grad=True), torch.rand(2, device="meta")
        with self.assertRaisesRegex(fa2c.Error, "x0.*3.*heads|x0: .*expected.*2"):
            fa2c.attention(q, q, q, score_mod=lambda s, b, h, i, j: s + slopes[h])
        with self.assertRaisesRegex(ValueError, r"a captured tensor of shape \(2,\) is on meta, q is on cpu"):
            fa2c.attention(q, q, q, score_mod=lambda s, b, h, i, j: s + meta[h])

    def test_deterministic_gradients_of_captured_tensors(self):
        """Sums that no order changes: the same bits again, and what sums in any order give to f32's roundings."""
        q = torch.randn(2, 2, 72, 64, dtype=torch.bfloat16, requires_grad=True)
        table, slopes, heat = torch.randn(2, 143), torch.rand(3), torch.tensor(0.7)
        buckets = torch.randint(143, (72, 72), dtype=torch.int32)
        read = [x.requires_grad_() for x in (table, slopes, heat)]
        for score_mod in (lambda s, b, h, i, j: s * heat + slopes[h + 1] + table[h, i - j + 71],
                          lambda s, b, h, i, j: s * heat + slopes[h + 1] + table[h, buckets[i, j]]):
            dout, found = torch.randn(2, 2, 72, 64), {}
            for fixed in (False, True):
                out = fa2c.attention(q, q, q, causal=True, score_mod=score_mod, deterministic=fixed)
                found[fixed] = torch.autograd.grad(out, read, dout.to(out.dtype), retain_graph=fixed)
            again = torch.autograd.grad(out, read, dout.to(out.dtype))
            for mine, same, other in zip(found[True], again, found[False]):
                self.assertTrue(torch.equal(mine, same))
                self.assertLess((mine - other).abs().max().item(), 1e-4 * (1 + other.abs().max().item()))
                self.assertGreater(mine.abs().max().item(), 1e-3)
            dout[0, 1, 30, 5] = math.inf  # what sees it is no number, and nothing else
            for fixed in (False, True):
                out = fa2c.attention(q, q, q, causal=True, score_mod=score_mod, deterministic=fixed)
                found[fixed] = torch.autograd.grad(out, read, dout.to(out.dtype))
            for mine, other in zip(found[True], found[False]):
                self.assertTrue(torch.equal(mine.isfinite(), other.isfinite()))
                self.assertFalse(mine.isfinite().all())

    def test_what_would_be_frozen(self):
        table, slope, wide, double = torch.ones(4), torch.tensor(0.5), torch.ones(4, 5), torch.ones(4, dtype=torch.float64)
        expected = (
            (lambda s, b, h, q, kv: s + table, r"a captured tensor of shape \(4,\) takes part as a whole"),
            (lambda s, b, h, q, kv: torch.where(q > kv, table, s), "takes part as a whole"),
            (lambda s, b, h, q, kv: s + wide[h], r"a captured Captured of shape \(5,\) is not supported here"),
            (lambda s, b, h, q, kv: s + wide[h, 0, q], "3 indices into a captured tensor of shape"),
            (lambda s, b, h, q, kv: s + table[s], "takes indices of integers, got f32"),
            (lambda s, b, h, q, kv: s + table[q > kv], "takes indices of integers, got i1"),
            (lambda s, b, h, q, kv: s + table[:2], "takes indices of integers, got slice"),
            (lambda s, b, h, q, kv: s + table[-1], "an index from the end is not supported"),
            (lambda s, b, h, q, kv: s + table.double()[h], "torch.double of no traced value"),
            (lambda s, b, h, q, kv: s + double[h], "a captured tensor of torch.float64; supported: torch.float32"),
            (lambda s, b, h, q, kv: s + wide[None, None, None][0, 0, 0, h, q], "torch.|takes indices of integers, got NoneType"),
            (lambda s, b, h, q, kv: s * slope.item(), "torch.item of no traced value"),
            (lambda s, b, h, q, kv: s * float(slope), "of no traced value"),
            (lambda s, b, h, q, kv: s + torch.arange(3)[1], "torch.arange of no traced value"),
            (lambda s, b, h, q, kv: s + torch.rand_like(s), "torch.rand_like is not supported"),
            (lambda s, b, h, q, kv: torch.dot(s, s), "torch.dot is not supported in a program; supported"),
            (lambda s, b, h, q, kv: s.add_(1), "add_ is not supported|in place"),
            (lambda s, b, h, q, kv: s.to(torch.bfloat16), "computes in float32, int32 and bool, not in torch.bfloat16"),
        )
        for mod, text in expected:
            with self.subTest(text), self.assertRaisesRegex((NotImplementedError, TypeError, IndexError), f"test_tracing.py:.*({text})"):
                fa2c.program(mod)

    def compiler_has_derivatives(self):
        try:
            fa2c.compiler.compile_ptx("pass=backward", Specification("bf16", 64, 64, "none", fa2c.program(relative).text).module())
        except fa2c.CompileError as error:
            self.assertIn("the derivative of a score program is not supported", str(error))
            return False
        return True

    def test_gradients(self):
        q = torch.randn(1, 1, 24, 64, dtype=torch.bfloat16, requires_grad=True)
        fa2c.attention(q, q, q, mask_mod=lambda b, h, i, j: i >= j).sum().backward()
        self.assertIsNotNone(q.grad)
        if not self.compiler_has_derivatives():
            out = fa2c.attention(q, q, q, score_mod=relative)
            with self.assertRaisesRegex(NotImplementedError, "score_mod: its gradients are not supported"):
                out.sum().backward()
            return
        tensors = [torch.randn(1, 2, n, 64, dtype=torch.bfloat16, requires_grad=True) for n in (40, 50, 50)]
        at = torch.meshgrid(*map(torch.arange, (1, 2, 40, 50)), indexing="ij")
        dout = torch.randn(1, 2, 40, 64, dtype=torch.bfloat16)
        for mod in (relative, lambda s, b, h, q, kv: 5 * torch.tanh(s / 5) + s * s * 0.1,
                    lambda s, b, h, q, kv: torch.where(q >= kv, s * 0.5, -math.inf)):
            got = torch.autograd.grad(fa2c.attention(*tensors, score_mod=mod), tensors, dout)
            exact = [x.detach().double().requires_grad_() for x in tensors]
            scores = exact[0] @ exact[1].transpose(2, 3) / 8
            out = torch.softmax(mod(scores, *at), -1) @ exact[2]
            for gradient, wanted in zip(got, torch.autograd.grad(out, exact, dout.double())):
                self.assertLess(excess(gradient.double().numpy(), wanted.numpy(), UNIT["bfloat16"]), 1)

    def test_compiled(self):
        q = torch.randn(1, 2, 24, 64, dtype=torch.bfloat16)
        program = fa2c.program(alibi, window)
        slope = 0.5
        for mods in (dict(score_mod=program), dict(score_mod=alibi, mask_mod=window),
                     dict(score_mod=lambda s, b, h, i, j: s * slope + i)):
            torch._dynamo.reset()
            compiled = torch.compile(lambda x: fa2c.attention(x, x, x, **mods) + 1, backend="eager", fullgraph=True)
            self.assertTrue(torch.equal(compiled(q), fa2c.attention(q, q, q, **mods) + 1))

    def test_compiled_with_operands(self):
        """Captured tensors and options, in values and gradients; a program is traced before, as its tensors are no constants."""
        q = torch.randn(1, 2, 24, 64, dtype=torch.bfloat16)
        slopes, bias = torch.rand(2, requires_grad=True), torch.randn(24, 24, requires_grad=True)
        mod = lambda s, b, h, i, j: s + slopes[h] * j  # noqa: E731
        for tensor, options in ((slopes, dict(score_mod=fa2c.program(mod))), (bias, dict(bias=bias, softcap=3.0)),
                                (slopes, dict(alibi_slopes=slopes, window=(3, 2)))):
            torch._dynamo.reset()
            compiled = torch.compile(lambda x: fa2c.attention(x, x, x, **options) * 1, backend="aot_eager", fullgraph=True)
            for _ in range(2):
                got, wanted = compiled(q), fa2c.attention(q, q, q, **options)
                self.assertTrue(torch.equal(got, wanted))
                got, wanted = (torch.autograd.grad(out.sum(), tensor)[0] for out in (got, wanted))
                self.assertTrue(torch.allclose(got, wanted, rtol=1e-4, atol=1e-4))
                with torch.no_grad():
                    tensor.mul_(2)
        torch._dynamo.reset()
        with self.assertRaisesRegex(Exception, "under torch.compile a function that captures tensors is traced before"):
            torch.compile(lambda x: fa2c.attention(x, x, x, score_mod=mod), backend="eager")(q)


if __name__ == "__main__":
    unittest.main()
