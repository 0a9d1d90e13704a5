"""fa2c.attention on NumPy's arrays, on the simulator."""

import os
import tempfile
import unittest
import warnings
from concurrent.futures import ThreadPoolExecutor

import fa2c

from fa2c.kernels import kernels

try:
    import numpy as np
    from reference import UNIT, attention, excess
except ImportError:
    np = None
try:
    fa2c.Device("sim")
    simulator_is_there = True
except (fa2c.Error, ImportError):
    simulator_is_there = False
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    os.environ["FA2_CACHE_DIR"] = folder.name


@unittest.skipIf(np is None, "NumPy is not installed")
@unittest.skipUnless(simulator_is_there, "this build of the runtime has no simulator")
class Arrays(unittest.TestCase):
    def setUp(self):
        self.random = np.random.default_rng(3)

    def draw(self, *shape, dtype="float16"):
        return self.random.standard_normal(shape).astype(dtype)

    def expect_right(self, q, k, v, causal=False, scale=None, **options):
        out, lse = fa2c.attention(q, k, v, causal=causal, scale=scale, return_lse=True, **options)
        heads_first = options.get("layout", "bhsd") == "bhsd"
        exchange = (lambda x: x) if heads_first else (lambda x: x.swapaxes(1, 2))
        wanted, wanted_lse = attention(*map(exchange, (q, k, v)), causal, scale)
        self.assertEqual((out.dtype, out.shape), (q.dtype, (*q.shape[:3], v.shape[3])))
        self.assertEqual((lse.dtype, lse.shape), (np.float32, wanted_lse.shape))
        self.assertLess(excess(exchange(out), wanted, UNIT[q.dtype.name]), 1)
        np.testing.assert_allclose(lse, wanted_lse, rtol=1e-5, atol=1e-5)

    def test_masks_and_grouped_heads(self):
        for causal in (False, True, "top_left"):
            for sq, sk in ((33, 70), (70, 33), (1, 40)):
                with self.subTest(causal=causal, sq=sq, sk=sk):
                    self.expect_right(self.draw(2, 4, sq, 64), self.draw(2, 2, sk, 64), self.draw(2, 2, sk, 64), causal)

    def test_head_dims_that_differ(self):
        self.expect_right(self.draw(1, 2, 40, 40), self.draw(1, 1, 50, 40), self.draw(1, 1, 50, 72))

    def test_layouts(self):
        q, k, v = self.draw(1, 40, 4, 64), self.draw(1, 50, 2, 64), self.draw(1, 50, 2, 64)
        self.expect_right(q, k, v, True, layout="bshd")
        self.expect_right(*(x.swapaxes(1, 2) for x in (q, k, v)), True)  # the same memory
        self.expect_right(*(np.asfortranarray(x) for x in (q, k, v)), True, layout="bshd")

    def test_scale(self):
        q, k, v = (self.draw(1, 2, 40, 64) for _ in range(3))
        for scale in (0.02, 0.5, 1):
            self.expect_right(q, k, v, scale=scale)

    def test_nothing(self):
        self.expect_right(self.draw(1, 2, 8, 64), self.draw(1, 2, 0, 64), self.draw(1, 2, 0, 64))
        for shape in ((0, 2, 8, 64), (1, 0, 8, 64), (1, 2, 0, 64)):
            self.assertEqual(fa2c.attention(*(self.draw(*shape) for _ in range(3))).shape, shape)

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not installed")
    def test_bfloat16(self):
        self.expect_right(*(self.draw(1, 2, 40, 64, dtype=ml_dtypes.bfloat16) for _ in range(3)))

    def test_what_is_wrong(self):
        q = self.draw(1, 2, 8, 64)
        f32 = q.astype("float32")
        for error, text, given, options in (
            (TypeError, "q: dtype is float32; expected float16, or bfloat16 of the package ml_dtypes", (f32, q, q), {}),
            (TypeError, "v: got list; expected a PyTorch tensor, a NumPy array, or another", (q, q, [1]), {}),
            (ValueError, r"q: the shape is \(2, 8, 64\); expected 4 dimensions, \[batch, heads", (q[0], q, q), {}),
            (ValueError, "k: the head dim is 56, that of q is 64", (q, q[..., :56], q), {}),
            (ValueError, "k: the batch is 0, that of q is 1", (q, q[:0], q), {}),
            (ValueError, "v: the seqlen is 7, that of k is 8", (q, q, q[:, :, :7]), {}),
            (ValueError, "number of heads is 2; expected a multiple of k's and v's, which is 4",
             (q, *[np.concatenate([q, q], 1)] * 2), {}),
            (ValueError, "q: the head dim is 60; expected a multiple of 8 from 8 to 256: pad with zeros to 64",
             (q[..., :60], q[..., :60], q), {}),
            (ValueError, "q: the head dim is 264; expected", [self.draw(1, 1, 8, 264)] * 3, {}),
            (ValueError, "layout is 'sbhd'; expected 'bhsd'", (q, q, q), {"layout": "sbhd"}),
            (ValueError, "causal is 'left'; expected True", (q, q, q), {"causal": "left"}),
            (ValueError, "scale is -1.0; expected a positive, finite number", (q, q, q), {"scale": -1}),
            (ValueError, "scale is nan", (q, q, q), {"scale": float("nan")}),
            (ValueError, "simulator, which is for trying things out", [self.draw(1, 32, 2048, 64)] * 3, {}),
            (NotImplementedError, r"window = \(5, 0\) is not supported yet; with causal=True it is", (q, q, q),
             {"window": (5, 0), "causal": "top_left"}),
            (ValueError, r"window is \(-3, 0\); expected numbers of keys", (q, q, q), {"window": (-3, 0)}),
            (TypeError, "window: got int; expected", (q, q, q), {"window": 3}),
            (ValueError, "softcap is -30.0; expected a positive", (q, q, q), {"softcap": -30.0}),
            (ValueError, r"bias: the shape is \(1, 2, 8, 64\); expected one that expands to .*\(1, 2, 8, 8\)", (q, q, q), {"bias": q}),
            (TypeError, "bias: dtype is bool; expected float32", (q, q, q), {"bias": np.ones((8, 8), bool)}),
            (TypeError, "alibi_slopes: got list; expected a tensor", (q, q, q), {"alibi_slopes": [0.5]}),
            (ValueError, r"alibi_slopes: the shape is \(3,\); expected \[heads\]", (q, q, q), {"alibi_slopes": f32[0, 0, 0, :3]}),
            (ValueError, "dropout_p is 1.0; expected a probability from 0 to 0.998", (q, q, q), {"dropout_p": 1}),
            (ValueError, r"rng: got float32 \(2,\); expected int64 \(2,\), seed and offset", (q, q, q), {"dropout_p": 0.1, "rng": f32[0, 0, 0, :2]}),
            (TypeError, "rng: got int; expected int64", (q, q, q), {"dropout_p": 0.1, "rng": 3}),
            (TypeError, "sinks: got list; expected a tensor", (q, q, q), {"sinks": [0.0]}),
            (ValueError, r"sinks: the shape is \(3,\); expected \[heads\], \(2,\)", (q, q, q), {"sinks": f32[0, 0, 0, :3]}),
            (TypeError, "unexpected keyword", (q, q, q), {"windows": 3}),
        ):
            with self.subTest(text), self.assertRaisesRegex(error, text):
                fa2c.attention(*given, **options)

    def test_sinks(self):
        """One more score a row, without a value; alone and beside a program."""
        q, k, v = self.draw(2, 4, 40, 64), self.draw(2, 2, 30, 64), self.draw(2, 2, 30, 64)
        sinks = np.array([-1e4, 0, 2, 50], "float32")
        x = np.einsum("bhid,bhjd->bhij", q.astype(float), k.astype(float).repeat(2, 1)) / 8
        for options, hidden in (({}, False), ({"causal": "top_left"}, np.arange(30) > np.arange(40)[:, None]), ({"softcap": 2.0}, False)):
            with self.subTest(**options):
                out, lse = fa2c.attention(q, k, v, sinks=sinks, return_lse=True, **options)
                scores = np.where(hidden, -np.inf, 2 * np.tanh(x / 2) if "softcap" in options else x)
                wanted = np.logaddexp(np.logaddexp.reduce(scores, 3), sinks[:, None])
                np.testing.assert_allclose(lse, wanted, 1e-5, 1e-5 if "softcap" not in options else 1e-3)
                p = np.exp(scores - wanted[..., None])
                np.testing.assert_allclose(out, p @ v.astype(float).repeat(2, 1), 2e-3, 2e-3)

    def test_dropout(self):
        """What is dropped follows from seed and offset, whatever the tiles are; 0 is none."""
        from reference import kept, softmax, visible

        q, k, v = self.draw(2, 4, 40, 64), self.draw(2, 2, 70, 64), self.draw(2, 2, 70, 64)
        x = np.einsum("bhid,bhjd->bhij", q.astype(float), k.astype(float).repeat(2, 1)) / 8
        p, wanted = softmax(np.where(visible(40, 70, True), x, -np.inf))
        for seed, offset, probability in ((1234567890123, 5, 0.25), (-7 % 2**64, 2**40 + 3, 0.9)):
            with self.subTest(p=probability):
                out, lse = fa2c.attention(q, k, v, causal=True, dropout_p=probability, rng=(seed, offset), return_lse=True)
                np.testing.assert_allclose(lse, wanted, 1e-5, 1e-5)
                dropped = p * kept(seed, offset, probability, 2, 4, 40, 70)
                np.testing.assert_allclose(out, dropped @ v.astype(float).repeat(2, 1), 4e-3, 4e-3)
        self.assertFalse(np.array_equal(*(fa2c.attention(q, k, v, dropout_p=0.5) for _ in range(2))))
        plain = fa2c.attention(q, k, v)
        self.assertTrue(np.array_equal(fa2c.attention(q, k, v, dropout_p=0.0), plain))
        self.assertTrue(np.array_equal(fa2c.attention(q, k, v, dropout_p=0.001), plain))
        share = np.mean(kept(3, 4, 0.25, 2, 4, 128, 128) > 0)
        self.assertLess(abs(share - 0.75), 4 * (0.1875 / (2 * 4 * 128 * 128)) ** 0.5)

    def test_options_that_are_programs(self):
        """Every combination of a cap, a bias, slopes and windows, and a new value of each, which compiles nothing."""
        b, h, sq, sk = 2, 4, 24, 40
        q, k, v = self.draw(b, h, sq, 64), self.draw(b, 2, sk, 64), self.draw(b, 2, sk, 64)
        distance = np.arange(sq)[:, None] + sk - sq - np.arange(sk)
        biases = [self.draw(*shape).astype(np.float32) for shape in ((sq, sk), (b, 1, 1, sk), (1, h, sq, 1), (b, h, sq, sk))]
        compiled = []
        for causal, layout, options, change in (
            (False, "bhsd", dict(softcap=2.0), lambda x: 2 * np.tanh(x / 2)),
            (False, "bhsd", dict(softcap=3.0), lambda x: 3 * np.tanh(x / 3)),
            (True, "bhsd", dict(bias=biases[0]), lambda x: x + biases[0]),
            (False, "bshd", dict(bias=biases[1]), lambda x: x + biases[1]),
            (False, "bhsd", dict(bias=biases[2], softcap=2.0), lambda x: 2 * np.tanh(x / 2) + biases[2]),
            (False, "bhsd", dict(bias=biases[3]), lambda x: x + biases[3]),
            (False, "bhsd", dict(alibi_slopes=biases[3][0, :, 0, 0]), lambda x: x - biases[3][0, :, 0, 0][:, None, None] * abs(distance)),
            (True, "bshd", dict(alibi_slopes=biases[3][:, :, 0, 0]), lambda x: x - biases[3][:, :, 0, 0][:, :, None, None] * distance),
            (False, "bhsd", dict(window=(5, 3)), lambda x: np.where((distance <= 5) & (-distance <= 3), x, -np.inf)),
            (False, "bhsd", dict(window=(7, 1)), lambda x: np.where((distance <= 7) & (-distance <= 1), x, -np.inf)),
            (False, "bhsd", dict(window=(6, 0)), lambda x: np.where((distance <= 6) & (distance >= 0), x, -np.inf)),
            (True, "bhsd", dict(window=(4, -1), score_mod=lambda s, *at: s * 0.5), lambda x: np.where(distance <= 4, x * 0.5, -np.inf)),
        ):
            with self.subTest(**options):
                exchange = (lambda x: x) if layout == "bhsd" else (lambda x: x.swapaxes(1, 2))
                out, lse = fa2c.attention(*map(exchange, (q, k, v)), causal=causal, layout=layout, return_lse=True, **options)
                wanted, wanted_lse = attention(q, k, v, causal, change=change)
                self.assertLess(excess(exchange(out), wanted, UNIT["float16"]), 1)
                np.testing.assert_allclose(lse, wanted_lse, rtol=2e-5, atol=2e-5)
                compiled.append(len(kernels._programs))
        self.assertEqual((compiled[0], compiled[8]), (compiled[1], compiled[9]))

    def test_whatever_speaks_dlpack(self):
        class Other:
            """An array of another library, which lies on the host."""

            def __init__(self, x, device=1):
                self.x, self.device = x, device

            def __dlpack__(self, **options):
                return self.x.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.device, 0

        q, k, v = (self.draw(1, 2, n, 64) for n in (24, 40, 40))
        got = np.from_dlpack(fa2c.attention(Other(q), Other(k), Other(v), causal=True))
        np.testing.assert_array_equal(got, fa2c.attention(q, k, v, causal=True))
        with self.assertRaisesRegex(TypeError, r"k: a Other on a GPU; pass torch.from_dlpack\(k\), which shares its memory"):
            fa2c.attention(q, Other(k, 2), v)

    def test_no_window_is_a_window(self):
        q = self.draw(1, 1, 8, 64)
        fa2c.attention(q, q, q, window=(-1, -1), softcap=0.0, dropout_p=0.0)

    def test_threads(self):
        given = [[self.draw(1, 2, 8 + i, 16 + 8 * (i % 3)) for _ in range(3)] for i in range(6)]
        wanted = [fa2c.attention(*tensors, causal=True) for tensors in given]
        with ThreadPoolExecutor(6) as pool:
            got = list(pool.map(lambda tensors: fa2c.attention(*tensors, causal=True), given * 3))
        for a, b in zip(got, wanted * 3):
            np.testing.assert_array_equal(a, b)

    def test_nothing_is_warned_of(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.expect_right(*(self.draw(1, 2, 17, 24) for _ in range(3)))


if __name__ == "__main__":
    unittest.main()
