"""What was compiled, on disk: a file a kernel, named by a hash of everything that it follows from.

Any number of processes may use one folder: a file appears whole or not at all,
and equal names have equal contents. A file that is damaged is not used. When
the folder outgrows its limit, the files that were not used for the longest time
are removed.
"""

import hashlib
import os
import tempfile
import warnings
from pathlib import Path
from typing import Optional

_MAGIC = b"fa2c-cache-1 "
_HASH_BYTES = 64  # a SHA-256 in hexadecimal
_DEFAULT_LIMIT = 512 << 20


def key_of(*parts: Optional[str]) -> str:
    """A name for what follows from these texts."""
    digest = hashlib.sha256()
    for part in parts:
        data = b"" if part is None else part.encode()
        digest.update(b"%d:%d:" % (part is not None, len(data)) + data)
    return digest.hexdigest()


class DiskCache:
    def __init__(self, folder: Path, limit: int = _DEFAULT_LIMIT):
        self.folder, self.limit = Path(folder), limit

    def get(self, key: str) -> Optional[bytes]:
        """What was put there; None where there is nothing, or it is damaged, which is said."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        content = data[len(_MAGIC) + _HASH_BYTES + 1:]
        if data != _header(content) + content:
            warnings.warn(f"{path} is damaged; the kernel is compiled again", RuntimeWarning, stacklevel=2)
            return None
        try:
            os.utime(path)  # which makes it the latest used
        except OSError:
            pass
        return content

    def put(self, key: str, content: bytes) -> None:
        """Writes it; a folder that cannot be written is said once and costs a compilation at each start."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._write(self._path(key), _header(content) + content)
            self._shrink()
        except OSError as error:
            warnings.warn(f"compiled kernels cannot be kept in {self.folder}: {error.strerror}; FA2_CACHE_DIR names "
                          "another folder", RuntimeWarning, stacklevel=2)

    def size(self) -> int:
        """Bytes of all files."""
        return sum(size for _, size, _ in self._files())

    def _path(self, key):
        return self.folder / f"{key}.ptx"

    def _write(self, path, data):
        # Beside its place, so that the move is one step.
        handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def _files(self):
        """(time of the last use, bytes, path) of each; what another process removes meanwhile is left out."""
        found = []
        try:
            entries = list(os.scandir(self.folder))
        except OSError:
            return found
        for entry in entries:
            try:
                status = entry.stat()
            except OSError:
                continue
            if entry.name.endswith(".ptx"):
                found.append((status.st_mtime, status.st_size, entry.path))
        return found

    def _shrink(self):
        files = sorted(self._files())
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= self.limit:
                return
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            total -= size


def _header(content):
    return _MAGIC + hashlib.sha256(content).hexdigest().encode() + b"\n"


def default_cache() -> Optional[DiskCache]:
    """That of FA2_CACHE_DIR, else in the user's folder for caches; None where FA2_CACHE is 0."""
    if os.environ.get("FA2_CACHE") == "0":
        return None
    given = os.environ.get("FA2_CACHE_DIR")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return DiskCache(Path(given or os.path.join(home, "fa2c")), _limit())


def _limit():
    given = os.environ.get("FA2_CACHE_MB")
    if given is None:
        return _DEFAULT_LIMIT
    if not given.isdigit():
        raise ValueError(f"FA2_CACHE_MB is {given!r}; expected a number of megabytes")
    return int(given) << 20
