"""What is here and what it allows: python -m fa2c doctor."""

import importlib
import platform
import sys
import time

from . import compiler, kernels, library, runtime

_PEERS = ("torch", "numpy", "ml_dtypes", "transformers")


def doctor() -> bool:
    """Prints what it finds; whether fa2c.attention works somewhere."""
    print(f"python     {platform.python_version()}, {platform.system()} {platform.machine()}")
    has_compiler, has_runtime = _say("compiler", _compiler), _say("runtime", _runtime)
    simulator = has_runtime and _say("simulator", lambda: _device("sim"))
    gpu = has_runtime and _say("gpu", _gpus)
    for name in _PEERS:
        _say(name, lambda name=name: _peer(name))
    _say("cache", _cache)
    works = has_compiler and (simulator or gpu)
    where = [place for place, there in (("CUDA tensors", gpu), ("small arrays of the host", simulator)) if there]
    print("fa2c.attention takes " + " and ".join(where) if works else "fa2c.attention does not work here")
    return works


def _say(what, find):
    try:
        print(f"{what:10} {find()}")
        return True
    except Exception as error:  # whatever is wrong is what is asked for
        print(f"{what:10} no: {error}")
        return False


def _compiler():
    path = compiler.compiler_library()._name
    start = time.perf_counter()
    size = len(compiler.compile_ptx("head_dim=64 cache=none").ptx)
    took = time.perf_counter() - start
    return f"{compiler.compiler_version()} ({path}); head dim 64 to {size >> 10} KB of PTX in {took:.2f} s"


def _runtime():
    return f"{runtime.version()} ({library.library()._name})"


def _device(name):
    properties = runtime.Device(name).properties()
    arch = kernels.architectures(properties["compute_capability"])[0]
    driver = properties["driver_version"]
    cuda = f", CUDA {driver // 1000}.{driver % 1000 // 10}" if driver else ""
    return f"{properties['name']}{cuda}; forward kernels for {arch}"


def _gpus():
    return "; ".join(_device(f"cuda:{i}") for i in range(runtime.cuda_device_count()))


def _peer(name):
    module = importlib.import_module(name)
    note = ""
    if name == "torch":
        direct = hasattr(module.Tensor, "__dlpack_c_exchange_api__")
        note = "" if direct else "; tensors are read by Python, as it has no C exchange functions of DLPack (2.11 has)"
    return f"{module.__version__}{note}"


def _cache():
    return ", ".join(compiler.cache_state().splitlines()) or "off (FA2_CACHE=0)"


def main(arguments) -> int:
    if arguments != ["doctor"]:
        print("usage: python -m fa2c doctor", file=sys.stderr)
        return 2
    return 0 if doctor() else 1
