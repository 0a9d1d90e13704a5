"""What tensors of the host may be: they run on the simulator, which takes seconds for what a GPU does in microseconds."""

import os

_DEFAULT_LIMIT = 2.0  # 10^9 operations, about ten seconds


def _limit():
    given = os.environ.get("FA2_SIMULATOR_GFLOP")
    try:
        return float(given) if given else _DEFAULT_LIMIT
    except ValueError:
        raise ValueError(f"FA2_SIMULATOR_GFLOP is {given!r}; expected a number") from None


def check_size(q, k, v, heads_first: bool) -> None:
    """Raises ValueError for shapes that would keep the simulator busy for long."""
    seqlen, heads = (2, 1) if heads_first else (1, 2)
    work = 2e-9 * q[0] * q[heads] * q[seqlen] * k[seqlen] * (q[3] + v[3])
    if work > _limit():
        raise ValueError(
            f"q: tensors on the CPU run on the simulator, which is for trying things out: {work:.3g} GFLOP, at most "
            f"{_limit():g} (FA2_SIMULATOR_GFLOP raises it); pass CUDA tensors, or shorter ones"
        )
