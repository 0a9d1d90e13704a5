"""Errors that several modules raise."""

_COVERED = "fa2c covers masks, windows, softcap, biases, ALiBi, sinks, dropout, grouped heads, head dims that differ, score_mod and mask_mod"


def not_supported(name: str, value, instead: str = "") -> NotImplementedError:
    """For an argument whose meaning no kernel has yet."""
    shown = repr(value)
    if len(shown) > 60:
        shown = f"a {type(value).__name__}"
    return NotImplementedError(f"{name} = {shown} is not supported yet{'; ' + instead if instead else ''} ({_COVERED})")
