"""Beginnings and ends that scripts share."""

import contextlib
import io
import unittest
from unittest import mock

from fa2bench import ends
from fa2bench.cases import Refused


class Ends(unittest.TestCase):
    def test_what_failed_is_said(self):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual([ends.status_of([]), ends.status_of(["a kernel"])], [0, 1])
        self.assertEqual(said.getvalue(), "FAILED a kernel\n")

    def test_a_refusal_is_said_and_another_error_is_not_hidden(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(ends.said("x.py", lambda: 1), 1)
            self.assertEqual(ends.said("x.py", mock.Mock(side_effect=Refused("no kernels"))), 2)
        self.assertEqual(said.getvalue(), "x.py: error: no kernels\n")
        with self.assertRaises(ZeroDivisionError):
            ends.said("x.py", lambda: 1 / 0)

    def test_without_pytorch(self):
        with mock.patch.dict("sys.modules", torch=None), self.assertRaisesRegex(Refused, "^PyTorch is not installed; --list works$"):
            ends.with_gpu(otherwise="; --list works")


if __name__ == "__main__":
    unittest.main()
