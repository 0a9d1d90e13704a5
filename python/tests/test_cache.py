"""What is kept of compiled kernels, on disk and in memory."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from dataclasses import replace
from pathlib import Path
from unittest import mock

import fa2c
from fa2c import kernels as kernels_module
from fa2c.compiler import cache_state
from fa2c.kernels import Kernels, architectures, compiled, ptx_of
from fa2c.specification import Specification

SMALL = Specification("bf16", 16, 16)
try:
    fa2c.Device("sim")
    simulator_is_there = True
except (fa2c.Error, ImportError):
    simulator_is_there = False


class Compiling(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        change = mock.patch.dict(os.environ, {"FA2_CACHE_DIR": folder.name})
        change.start()
        self.addCleanup(change.stop)
        self.folder = Path(folder.name)

    def count(self):
        """Counts compilations from here on that the disk did not save."""
        compile_ptx, calls = kernels_module.compile_ptx, []

        def counted(*given):
            compilation = compile_ptx(*given)
            if not compilation.cached:
                calls.append(given)
            return compilation

        change = mock.patch.object(kernels_module, "compile_ptx", counted)
        change.start()
        self.addCleanup(change.stop)
        return calls

    def test_once_a_specification(self):
        calls = self.count()
        first = ptx_of(SMALL, "sm_80")
        self.assertEqual(ptx_of(SMALL, "sm_80"), first)
        self.assertEqual(len(calls), 1)
        for other, arch in ((Specification("f16", 16, 16), "sm_80"), (SMALL, "sm_90a"),
                            (SMALL.gradient(False), "sm_80"), (SMALL.gradient(True), "sm_80")):
            self.assertNotEqual(ptx_of(other, arch), first)
        self.assertEqual(len(calls), 5)

    def test_a_damaged_file_is_compiled_again(self):
        calls = self.count()
        first = ptx_of(SMALL, "sm_80")
        (path,) = self.folder.iterdir()
        path.write_bytes(path.read_bytes()[:-100])
        with self.assertWarns(RuntimeWarning):
            self.assertEqual(ptx_of(SMALL, "sm_80"), first)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(ptx_of(SMALL, "sm_80"), first)
        self.assertEqual(len(calls), 2)

    def test_a_folder_that_cannot_be_written_is_said(self):
        (self.folder / "file").write_text("")
        with mock.patch.dict(os.environ, {"FA2_CACHE_DIR": str(self.folder / "file")}):
            with self.assertWarnsRegex(RuntimeWarning, "cannot be kept in .*FA2_CACHE_DIR names another folder"):
                ptx_of(SMALL, "sm_80")

    def test_environment(self):
        calls = self.count()
        self.assertEqual(cache_state(), f"{self.folder}\n0 of at most 512 MB\n")
        with mock.patch.dict(os.environ, {"FA2_CACHE": "0"}):
            ptx_of(SMALL, "sm_80")
            ptx_of(SMALL, "sm_80")
            self.assertEqual(cache_state(), "")
        self.assertEqual((len(calls), list(self.folder.iterdir())), (2, []))
        with mock.patch.dict(os.environ, {"FA2_CACHE_MB": "many"}):
            with self.assertRaisesRegex(ValueError, "expected FA2_CACHE_MB to be a number of megabytes, got 'many'"):
                ptx_of(SMALL, "sm_80")

    def test_what_the_compiler_refuses(self):
        with self.assertRaisesRegex(fa2c.CompileError, "expected head_dim to be a multiple of 8 .* got 100"):
            ptx_of(Specification("bf16", 100, 100), "sm_80")
        self.assertFalse(list(self.folder.iterdir()))

    def test_architectures(self):
        for capability, names in ((80, ("sm_80",)), (88, ("sm_87",)), (90, ("sm_90a", "sm_90")), (100, ("sm_100",)), (123, ("sm_121",))):
            self.assertEqual(architectures(capability), names)
        with self.assertRaisesRegex(NotImplementedError, "compute capability 7.5; expected 8.0 or later"):
            architectures(75)

    def test_sm_90a_covers_gradients(self):
        def target(specification):
            return re.search(rb"^\.target (\S+)", compiled(specification, 90, ptx_of), re.M).group(1)

        gradient = SMALL.gradient(deterministic=False)
        self.assertEqual(target(gradient), b"sm_90a")
        self.assertEqual(target(SMALL.gradient(deterministic=True)), b"sm_90a")
        self.assertEqual(target(replace(gradient, head_dim=192)), b"sm_90a")
        with self.assertRaisesRegex(fa2c.CompileError, "nonsense"):
            compiled(replace(gradient, schedule="nonsense=1"), 90, ptx_of)

    @unittest.skipUnless(simulator_is_there, "this build of the runtime has no simulator")
    def test_threads_share_one_compilation(self):
        calls, mine = self.count(), Kernels()
        programs = []
        threads = [threading.Thread(target=lambda: programs.append(mine.program(None, SMALL))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(calls), 1)
        self.assertEqual(len(set(map(id, programs))), 1)


FORK = """
import os, signal, threading, time
import fa2c
from fa2c.kernels import kernels
from fa2c.specification import Specification
small = Specification("bf16", 16, 16)
kernels.program(None, small)
kernels._lock.acquire()  # as another thread may at that moment
child = os.fork()
if child == 0:
    signal.alarm(60)
    kernels.program(None, small)
    kernels._forked_from_cuda = True
    try:
        kernels.device(0)
    except RuntimeError as error:
        os._exit(0 if "forked from one that used CUDA" in str(error) else 2)
    os._exit(3)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@unittest.skipUnless(hasattr(os, "fork") and simulator_is_there, "needs fork() and the simulator")
class Forked(unittest.TestCase):
    def test_a_child_has_kernels_of_its_own(self):
        done = subprocess.run([sys.executable, "-c", FORK], timeout=120)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
