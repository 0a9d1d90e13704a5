"""Lists of cases: a text file, a line a case, or several where a key has several values.

head_dim=128 heads=32 heads_kv=4,8 batch=1,4 seqlen=1 seqlen_k=8192 layout=bhsd,bshd

A line's cases are all combinations of its values, the last key's changing fastest. `tokens` leaves out those of
more than so many in a batch. What is not said is as the fields of a Case: batch 1, no mask, normal values.
"""

import itertools
from pathlib import Path

from .cases import CASE_FIELDS, DTYPES, LAYOUTS, MASKS, Case, Refused
from .values import VALUES

FOLDER = Path(__file__).resolve().parents[1] / "shapes"
CHOICES = {"mask": MASKS, "dtype": DTYPES, "layout": LAYOUTS, "values": tuple(VALUES)}
DEFAULTS = {"mask": "none", "batch": 1, "dtype": "bf16"}
NEEDED = ("head_dim", "heads", "seqlen")
MOST_HEAD_DIM, MOST_CASES = 256, 1000


def names():
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def find_list(text, dtype="bf16"):
    """(name, cases) of a file, or of a list of bench/shapes. `dtype`: where a line says none."""
    path = FOLDER / f"{text}.txt" if text in names() else Path(text)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise Refused(f"--shapes {text}: neither a file nor one of {', '.join(names())}") from None
    cases = {}
    for number, line in enumerate(lines, 1):
        try:
            cases |= dict.fromkeys(cases_of(line.partition("#")[0], dtype))
        except Refused as error:
            raise Refused(f"{path}:{number}: {error}") from None
    if not cases:
        raise Refused(f"{path}: it holds no cases")
    if len(cases) > MOST_CASES:
        raise Refused(f"{path}: it holds {len(cases)} cases; at most {MOST_CASES} are measured in one run")
    return path.stem, list(cases)


def cases_of(line, dtype="bf16"):
    chosen = parse_line(line)
    if not chosen:
        return []
    missing = [key for key in NEEDED if key not in chosen]
    if missing:
        raise Refused(f"{missing[0]} is not given; a case has at least {', '.join(NEEDED)}")
    most = chosen.pop("tokens", [None])[0]
    cases = []
    for values in itertools.product(*chosen.values()):
        case = Case(**{**DEFAULTS, "dtype": dtype, **dict(zip(chosen, values))})
        if case.heads % case.heads_kv:
            raise Refused(f"heads_kv is {case.heads_kv}; it must divide heads {case.heads}")
        if most is None or case.batch * case.seqlen <= most:
            cases.append(case)
    return cases


def parse_line(line):
    """{key: values}"""
    chosen = {}
    for part in line.split():
        key, equals, text = part.partition("=")
        if not equals:
            raise Refused(f"'{part}' is not KEY=VALUE[,VALUE...]")
        if key not in CASE_FIELDS and key != "tokens":
            raise Refused(f"'{key}' is no field of a case; those are {', '.join(CASE_FIELDS)} and tokens")
        if key in chosen:
            raise Refused(f"{key} is given twice")
        chosen[key] = [value_of(key, value) for value in text.split(",")]
        if key == "tokens" and len(chosen[key]) > 1:
            raise Refused(f"tokens is {text}; it is one number")
    return chosen


def value_of(key, text):
    if key in CHOICES:
        if text not in CHOICES[key]:
            raise Refused(f"{key} is '{text}'; it must be one of {', '.join(CHOICES[key])}")
        return text
    try:
        value = int(text)
    except ValueError:
        raise Refused(f"{key} is '{text}'; it must be a whole number") from None
    if value < 1:
        raise Refused(f"{key} is {value}; it must be at least 1")
    if key.startswith("head_dim") and (value % 8 or value > MOST_HEAD_DIM):
        nearest = min(MOST_HEAD_DIM, max(8, (value + 4) // 8 * 8))
        raise Refused(f"{key} is {value}; it must be a multiple of 8 up to {MOST_HEAD_DIM}, such as {nearest}")
    return value


def keep_only(cases, line):
    """Those whose fields have one of the values that a line gives."""
    chosen = parse_line(line)
    if "tokens" in chosen:
        most = chosen.pop("tokens")[0]
        cases = [case for case in cases if case.batch * case.seqlen <= most]
    return [case for case in cases if all(getattr(case, key) in values for key, values in chosen.items())]
