"""FA2RT_RECORD: what a process launched, as fa2-tune reads it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from collections import Counter

import fa2c

try:
    import numpy  # noqa: F401
except ImportError:
    numpy = None
try:
    fa2c.Device("sim")
    simulator_is_there = True
except (fa2c.Error, ImportError):
    simulator_is_there = False

# Launches of attention, several times at each length; then what the test asks for.
PROGRAM = """
import os, signal, sys, threading
import numpy as np
import fa2c

def launch(length, times):
    q = np.ones((1, 2, length, 16), "float16")
    for _ in range(times):
        fa2c.attention(q, q, q)

launch(8, 5)
launch(9, 3)
exec(sys.argv[1])
"""


@unittest.skipIf(numpy is None, "NumPy is not installed")
@unittest.skipUnless(simulator_is_there, "this build of the runtime has no simulator")
class Recording(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "launches")
        self.environment = {**os.environ, "FA2RT_RECORD": self.file, "FA2_CACHE_DIR": os.path.join(folder.name, "cache")}

    def start(self, ending="pass"):
        return subprocess.Popen([sys.executable, "-c", PROGRAM, ending], env=self.environment, stderr=subprocess.PIPE, text=True)

    def recorded(self):
        """{queries: launches}"""
        launches = Counter()
        with open(self.file) as file:
            for line in map(json.loads, file):
                self.assertEqual(line["specification"]["head_dim"], 16)
                shape = line["shape"]
                self.assertEqual((shape["batch"], shape["heads"], shape["heads_kv"], shape["seqlen_k"]), (1, 2, 2, shape["seqlen_q"]))
                launches[shape["seqlen_q"]] += line["launches"]
        return launches

    def expect(self, process, status=0):
        error = process.communicate(timeout=300)[1]
        self.assertEqual(process.returncode, status, error)

    def test_counts_are_those_of_the_launches(self):
        self.expect(self.start())
        self.assertEqual(self.recorded(), {8: 5, 9: 3})

    def test_threads_and_processes(self):
        threads = ("t = [threading.Thread(target=launch, args=(8, 7)) for _ in range(4)]\n"
                   "for x in t: x.start()\nfor x in t: x.join()")
        for process in [self.start(threads) for _ in range(2)]:
            self.expect(process)
        self.assertEqual(self.recorded(), {8: 2 * (5 + 28), 9: 6})

    def test_what_a_killed_process_wrote_stays(self):
        self.expect(self.start("os.kill(os.getpid(), signal.SIGKILL)"), -signal.SIGKILL)
        self.assertEqual(self.recorded(), {8: 4, 9: 2})  # the powers of two

    def test_children_count_their_own(self):
        self.expect(self.start("child = os.fork()\n"
                               "if child == 0: launch(9, 3)\n"
                               "else: os.waitpid(child, 0)"))
        self.assertEqual(self.recorded(), {8: 5, 9: 6})


if __name__ == "__main__":
    unittest.main()
