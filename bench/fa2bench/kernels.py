"""Kernel sets: PTX files (or cubins) found, read and matched to cases by their manifests."""

import glob
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

from .cases import Refused
from .runtime import Call, Program, manifest_of

# .param sizes of a launch's parameters, docs/manifest.md
PARAM_TYPES = {"pointer": ".u64", "stride": ".u64", "i32": ".u32", "i64": ".u64", "workspace": ".u64"}
SCALAR_TYPES = {"f32": ".f32", "i32": ".u32", "i64": ".u64"}


@dataclass
class KernelFile:
    """One compiled specification."""

    label: str
    path: Path
    ptx: bytes  # the manifest and the entries' declarations at least
    image: bytes | None  # a cubin to load in place of the PTX
    manifest: dict
    program: Program | None = field(default=None, repr=False)

    @property
    def key(self):
        """As a case's: (head dim, that of v, mask, dtype)."""
        s = self.manifest["specification"]
        return s["head_dim"], s["head_dim_v"], s["mask"], s["dtype"]

    @property
    def name(self):
        return f"{self.label}: {self.path.name}"

    def schedule_text(self):
        """The program's schedule and those of its kernels that have their own."""
        texts = [self._schedule_text(self.manifest.get("schedule", {}))]
        texts += [f"{launch.get('when', '')}: {self._schedule_text(launch['schedule'])}"
                  for launch in self.manifest["launches"] if "schedule" in launch]
        return "; ".join(texts)

    @staticmethod
    def _schedule_text(s):
        text = f"{s.get('block_q', '?')}x{s.get('block_kv', '?')}"
        for short, name in (("w", "warps"), ("s", "stages")):
            if name in s:
                text += f" {short}{s[name]}"
        skip = ("block_q", "block_kv", "warps", "stages", "target")
        return " ".join([text] + [f"{k}={v}" for k, v in s.items()
                                  if k not in skip and v not in (False, 0, None)])

    def load(self, library, device):
        self.program = Program(library, device, self.ptx, self.image)
        return self.program.kernels()

    def bind(self, q, k, v, out, lse, allocate):
        """A Call. q, k, v, out: [batch, heads, seqlen, head_dim] of any strides; lse: [batch,
        heads, seqlen_q]. The kernel's arguments are [batch, seqlen, heads, head_dim]."""
        return self.bind_named({"q": q, "k": k, "v": v, "out": out, "lse": lse}, allocate)

    def bind_named(self, named, allocate):
        """A Call with tensors by their names in the manifest, as for `bind`; lse is f32."""
        dtype = self.manifest["specification"]["dtype"]
        given = {name: (x, "f32") if name == "lse" else (x.transpose(1, 2), dtype)
                 for name, x in named.items()}
        tensors, reals = {}, {}
        for argument in self.manifest["arguments"]:
            name = argument["name"]
            if argument["kind"] == "tensor" and name in given:
                tensors[name] = given[name]
            elif name == "scale":
                reals[name] = 1 / math.sqrt(self.key[0])
            elif not argument.get("optional") and "default" not in argument:
                pass_ = self.manifest["specification"]["pass"]
                raise Refused(f"it takes an argument '{name}' that a {pass_} benchmark does not "
                              f"have (known: {', '.join([*given, 'scale'])})")
        return Call(self.program, tensors, reals, allocate)


def find_kernels(library, text, label=None, pass_="forward"):
    """The kernels of one pass of '[LABEL=]directory, file or glob', by their keys."""
    if label is None:
        head, equals, tail = text.partition("=")
        label, text = (head, tail) if equals and "/" not in head else (None, text)
    path = Path(text)
    if path.is_dir():
        paths = sorted(path.glob("*.ptx"))
    else:
        paths = [Path(p) for p in sorted(glob.glob(text))]
    if not paths:
        raise Refused(f"{text}: no kernels there (a directory with *.ptx, a file or a glob)")
    directory = path if path.is_dir() else paths[0].parent
    label = label or directory.resolve().name
    kernels = {}
    for path in paths:
        try:
            kernel = read_kernel(library, label, path, pass_)
        except OSError as error:
            raise Refused(f"{path}: {error.strerror}") from None
        except Refused as error:
            raise Refused(f"{path}: {error}") from None
        if kernel is None:
            continue
        if kernel.key in kernels:
            raise Refused(f"{path}: {kernels[kernel.key].path} in the same set is for the same head "
                          "dims, mask and dtype; give each set a directory of its own")
        kernels[kernel.key] = kernel
    return label, kernels


def read_kernel(library, label, path, pass_="forward"):
    """None for a kernel that is not of this pass."""
    image = None
    if path.suffix == ".cubin":
        image = path.read_bytes()
        beside = path.with_suffix(".ptx")
        ptx = (beside.read_bytes() if beside.exists()
               else declarations(path.with_suffix(".json").read_text()))
    else:
        ptx = path.read_bytes()
    manifest = manifest_of(ptx)
    try:
        library.check_manifest(ptx)
    except Exception as error:
        raise Refused(str(error)) from None
    specification = manifest["specification"]
    missing = [f for f in ("pass", "dtype", "head_dim", "head_dim_v", "mask") if f not in specification]
    if missing:
        raise Refused(f"its manifest's specification has no {missing[0]}")
    if specification["pass"] != pass_:
        return None
    return KernelFile(label, path, ptx, image, manifest)


def declarations(manifest_text):
    """A PTX text for a cubin that has only a manifest: the comment and the entries' parameters."""
    try:
        manifest = json.loads(manifest_text)
        scalars = {a["name"]: a["dtype"] for a in manifest["arguments"] if a["kind"] == "scalar"}
        entries = []
        for launch in manifest["launches"]:
            parameters = []
            for i, parameter in enumerate(launch["parameters"]):
                if parameter["kind"] == "tensor_map":
                    parameters.append(f".param .align 64 .b8 p{i}[128]")
                else:
                    kind = parameter["kind"]
                    ptx_type = (SCALAR_TYPES[scalars[parameter["of"]]] if kind == "scalar"
                                else PARAM_TYPES[kind])
                    parameters.append(f".param {ptx_type} p{i}")
            entries.append(f".visible .entry {launch['kernel']}({', '.join(parameters)}) {{ ret; }}")
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"the manifest beside it is broken: {error!r}") from None
    comment = "\n".join("// " + line for line in manifest_text.splitlines())
    return "\n".join(["// fa2-manifest-begin", comment, "// fa2-manifest-end",
                      ".version 7.0", ".target sm_80", ".address_size 64", *entries, ""]).encode()
