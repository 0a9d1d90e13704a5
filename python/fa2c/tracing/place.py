"""Where in a user's program something stands, for errors."""

import linecache
import os
import sys

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def here() -> str:
    """'mods.py:12: `score * table[q_idx]`' of the innermost line that is neither this package's nor PyTorch's."""
    frame = sys._getframe(1)
    while frame is not None and _is_library(frame):
        frame = frame.f_back
    if frame is None:
        return ""
    path, line = frame.f_code.co_filename, frame.f_lineno
    source = linecache.getline(path, line).strip()
    return f"{os.path.basename(path)}:{line}: " + (f"`{source}`: " if source else "")


def _is_library(frame):
    path = frame.f_code.co_filename
    module = frame.f_globals.get("__name__", "")
    return path.startswith(_PACKAGE + os.sep) or module == "torch" or module.startswith("torch.")


def cannot(text: str, error=NotImplementedError) -> Exception:
    """An error about the user's current line."""
    return error(here() + text)
