"""Lays out a repository of Hugging Face's kernel hub: one universal variant, which serves every PyTorch and every Python.

usage: hub.py WHEEL FOLDER

    FOLDER/build/torch-universal/       the package as it is in a wheel (scripts/wheel.sh), and metadata.json
    FOLDER/README.md                    its card

kernels.get_local_kernel(FOLDER) loads it; uploaded, so does kernels.get_kernel. Nothing of it is bound to its place or its name: what is imported there
is called after a hash of its files, and several versions can be loaded at once.
"""
import base64
import hashlib
import json
import pathlib
import re
import sys
import zipfile

CARD = """\
---
license: apache-2.0
tags:
- kernels
---
FlashAttention-2 kernels for NVIDIA GPUs of compute capability 8.0 and later, generated on first use by a compiler that is part of this repository: no CUDA
toolkit, no build. `flash_attn_func` and the others have flash_attn's signatures; `attention` has programs of scores, as FlexAttention's.

    from kernels import get_kernel
    fa2c = get_kernel("ORGANISATION/fa2c", version={version})
    out = fa2c.attention(q, k, v, causal=True)
"""


def main(wheel, folder):
    variant = pathlib.Path(folder) / "build" / "torch-universal"
    files = {}
    with zipfile.ZipFile(wheel) as archive:
        version = re.search(r"^Version: ((\d+)\..*)$", archive.read(next(
            name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))).decode(), re.M)
        for name in archive.namelist():
            if name.startswith("fa2c/") and not name.endswith("/"):
                files[name[len("fa2c/"):]] = archive.read(name)
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(b"%s\0%d\0" % (name.encode(), len(data)) + data)
        path = variant / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    unique = base64.b32encode(digest.digest()).decode().lower()[:16]
    metadata = {"name": "fa2c", "id": f"fa2c_{unique}", "version": int(version.group(2)), "license": "Apache-2.0 WITH LLVM-exception", "python-depends": [],
                "backend": {"type": "cuda"}}
    (variant / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n")
    (pathlib.Path(folder) / "README.md").write_text(CARD.format(version=version.group(2)))
    print(f"{variant}: {len(files)} files of fa2c {version.group(1)}, {sum(map(len, files.values())) / 1e6:.1f} MB, as {metadata['id']}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
