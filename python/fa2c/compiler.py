"""The compiler: libfa2 by ctypes."""

import ctypes
import warnings
from dataclasses import dataclass
from typing import Optional

from .library import compiler_library


class CompileError(ValueError):
    """What the compiler refuses, in its words: the field, its value, and the nearest thing supported."""


@dataclass(frozen=True)
class Compilation:
    ptx: bytes
    explanation: str
    cached: bool  # read from the disk


def compiler_version() -> str:
    """The compiler's version, such as "0.1.0"."""
    return compiler_library().fa2_version().decode()


def cache_state() -> str:
    """Where kernels are kept, and a line that says how much; empty where they are not."""
    library = compiler_library()
    return _taken(library, library.fa2_cache(b"")).ptx.decode()


def compile_ptx(specification: str, module: Optional[str] = None) -> Compilation:
    """Compiles a specification as fa2.h has it, or the one fa2.attention of a module's text."""
    library = compiler_library()
    if module is None:
        return _taken(library, library.fa2_compile(specification.encode()))
    return _taken(library, library.fa2_compile_module(module.encode(), specification.encode()))


def schedules(specification: str, module: Optional[str] = None) -> str:
    """A line a kernel of what compile_ptx would compile, as fa2_schedules says; it takes milliseconds."""
    library = compiler_library()
    text = None if module is None else module.encode()
    return _taken(library, library.fa2_schedules(text, specification.encode())).ptx.decode()


def _taken(library, handle):
    """What a handle holds, which is freed."""
    if not handle:
        raise MemoryError("the compiler ran out of memory")
    try:
        if not library.fa2_compilation_ok(handle):
            raise CompileError(library.fa2_compilation_error(handle).decode())
        size = library.fa2_compilation_size(handle)
        text = ctypes.string_at(library.fa2_compilation_text(handle), size)
        explanation = library.fa2_compilation_explanation(handle).decode()
        _warn(explanation)
        return Compilation(text, explanation, bool(library.fa2_compilation_cached(handle)))
    finally:
        library.fa2_compilation_free(handle)


def _warn(explanation):
    """Raises a warning for what is wrong with the cache."""
    for line in explanation.splitlines():
        if line.startswith("cache: "):
            warnings.warn(line[len("cache: "):], RuntimeWarning, stacklevel=4)
