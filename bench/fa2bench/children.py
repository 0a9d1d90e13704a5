"""Programs that may hang: each runs in a process group of its own, which is killed when its time is over."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass


@dataclass
class Ended:
    """How a program ended. status: None where it was killed for time; negative for a signal."""

    status: int | None
    out: str
    err: str

    @property
    def told(self):
        """The last thing that it said, for a line of a table."""
        lines = [line.strip() for line in (self.err + "\n" + self.out).splitlines() if line.strip()]
        return lines[0][:300] if lines else ""

    def why(self, limit):
        if self.status is None:
            return f"it did not end within {limit:.0f} s and was killed"
        if self.status < 0:
            return f"it died of {signal.Signals(-self.status).name}: {self.told}"
        return self.told or f"exit status {self.status}"


def run(command, seconds, env=None):
    try:
        child = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, errors="replace", env=env, start_new_session=True)
    except OSError as error:
        return Ended(127, "", f"{command[0]}: {error.strerror}")
    try:
        out, err = child.communicate(timeout=max(seconds, 0.1))
        return Ended(child.returncode, out, err)
    except subprocess.TimeoutExpired:
        return Ended(None, *_kill(child))
    except BaseException:
        _kill(child)
        raise


def _kill(child):
    """Kills the group; what it said. A process that a driver holds is not waited for."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        return child.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        return "", ""


def each(work, things, at_once):
    """work(thing) of every thing, `at_once` at a time; yields (thing, result) as they end."""
    with ThreadPoolExecutor(max(1, at_once)) as pool:
        waiting = {pool.submit(work, thing): thing for thing in things}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
