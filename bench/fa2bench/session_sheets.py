"""What a session on a GPU found: CSV files that only grow, and a report made of them at any time."""

import csv
import json
from pathlib import Path

SHEETS = {
    "check": ("file", "sha256", "flags", "outcome", "cases", "worst", "seconds", "text"),
    "bits": ("file", "sha256", "flags", "outcome", "seconds", "text"),
    "sanitize": ("file", "sha256", "flags", "tool", "outcome", "seconds", "text"),
}
TIMES = ("group", "candidate", "shape", "ms", "spread", "launches", "tflops", "speed", "clock_mhz", "flags", "text")


class Sheet:
    """A CSV file; a row is on the disk before the next thing begins."""

    def __init__(self, folder, name):
        self.name, self.fields, self.path = name, SHEETS[name], Path(folder) / f"{name}.csv"
        self.rows = read_rows(self.path)

    def has(self, **key):
        return any(all(row[k] == v for k, v in key.items()) for row in self.rows)

    def add(self, **row):
        row = {name: str(row.get(name, "")) for name in self.fields}
        new = not self.path.exists() or self.path.stat().st_size == 0
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.fields)
            if new:
                writer.writeheader()
            writer.writerow(row)
        self.rows.append(row)


def read_rows(path):
    """A file's whole rows: one that was cut off in the middle is left out."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    whole = text[:text.rfind("\n") + 1]
    if whole != text:
        Path(path).write_text(whole, encoding="utf-8")
    rows = csv.DictReader(whole.splitlines())
    return [row for row in rows if None not in row and None not in row.values()]


def read_times(journal):
    """(device, {(group, candidate's hash, shape): [visit]}, {(group, hash): why it was dropped}) of fa2-tune's results."""
    device, visits, dropped = "", {}, {}
    try:
        lines = Path(journal).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return device, visits, dropped
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue  # the last one, cut off
        device = said.get("device", device)
        for what in ("check", "lost"):
            if what in said and not said[what].get("passed", False):
                hashed, _, group = said[what]["kernel"].partition(" in ")
                dropped[group, hashed] = said[what].get("why", "it was wrong")
        if "again" in said:  # the cell was cut off, and what follows is all of it
            cell = said["again"]["group"], said["again"]["shape"]
            visits = {key: value for key, value in visits.items() if (key[0], key[2]) != cell}
        if "time" in said:
            hashed, _, group = said["time"]["kernel"].partition(" in ")
            visits.setdefault((group, hashed, said["time"]["shape"]), []).append(said["time"])
    return device, visits, dropped


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def shapes_of(group, head_dim):
    """fa2-tune's texts for a group's lengths: batch * queries is its tokens, heads * head dim its hidden size."""
    heads = max(1, group["hidden"] // head_dim)
    return [f"{max(1, group['tokens'] // n)}x{heads}/{heads}x{n}x{m}" for n, m in group["lengths"]]


def time_rows(index, journal):
    """(device, rows of times.csv): `speed` is the baseline's time over the candidate's."""
    device, visits, dropped = read_times(journal)
    kernels = {row["file"]: row for row in index["kernels"]}
    rows = []
    for group in index["groups"]:
        base = group["candidates"][0]
        for candidate in group["candidates"]:
            shared = {"group": group["name"], "candidate": candidate["name"], "flags": candidate["flags"]}
            why = candidate.get("why") or dropped.get((group["name"], candidate["hash"]))
            if why:
                rows.append({**shared, "text": why})
                continue
            for shape in shapes_of(group, kernels[candidate["file"]]["head_dim"]):
                mine = visits.get((group["name"], candidate["hash"], shape), [])
                theirs = visits.get((group["name"], base.get("hash"), shape), [])
                if not mine:
                    continue
                times = [v["ms"] for v in mine]
                ms = median(times)
                row = {**shared, "shape": shape, "ms": f"{ms:.5f}", "spread": f"{(max(times) - min(times)) / ms:.4f}",
                       "launches": sum(v["launches"] for v in mine), "tflops": f"{mine[0]['flops'] / ms / 1e9:.1f}",
                       "clock_mhz": f"{median([v['clock_mhz'] for v in mine]):.0f}"}
                if theirs:
                    row["speed"] = f"{median([v['ms'] for v in theirs]) / ms:.4f}"
                rows.append(row)
    return device, rows


def write_times(index, folder):
    device, rows = time_rows(index, Path(folder) / "times.jsonl")
    if rows and device:
        with open(Path(folder) / "times.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, TIMES)
            writer.writeheader()
            writer.writerows(rows)
    return device, rows


def outcome_lines(title, rows, of):
    """A heading, a count, and a line for each that did not pass."""
    if not rows:
        return [f"## {title}", "", "Not run.", ""]
    counts = {}
    for row in rows:
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
    lines = [f"## {title}", "", f"{len(rows)} of {of}: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())) + ".", ""]
    bad = [row for row in rows if row["outcome"] != "passed"]
    if bad:
        lines += ["| kernel | outcome | what it said |", "|---|---|---|"]
        lines += [f"| `{row['flags']}` ({row['file']}) | {' '.join(filter(None, [row.get('tool'), row['outcome']]))} | "
                  f"{row['text'].replace('|', '/')} |" for row in bad] + [""]
    return lines


def time_lines(device, rows):
    lines = ["## Times", ""]
    if not device:
        return [*lines, "Not measured.", ""]
    lines += [f"{device}. Milliseconds, medians of interleaved bursts; in brackets the speed over the group's first candidate.", ""]
    for group in dict.fromkeys(row["group"] for row in rows):
        mine = [row for row in rows if row["group"] == group]
        shapes = list(dict.fromkeys(row["shape"] for row in mine if row.get("shape")))
        lines += [f"| {group} | " + " | ".join(shapes) + " |", "|---" * (len(shapes) + 1) + "|"]
        for name in dict.fromkeys(row["candidate"] for row in mine):
            of = {row.get("shape"): row for row in mine if row["candidate"] == name}
            cells = [f"{of[s]['ms']} ({of[s].get('speed', '-')})" if s in of else "-" for s in shapes]
            why = next((row["text"] for row in of.values() if row.get("text")), "")
            lines.append(f"| {name}{': ' + why.replace('|', '/') if why else ''} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines


def write_report(index, folder):
    """report.md of what the other files hold."""
    folder = Path(folder)
    sheets = {name: read_rows(folder / f"{name}.csv") for name in SHEETS}
    device, times = write_times(index, folder)
    total = len(index["kernels"])
    deterministic = sum(bool(row["deterministic"]) for row in index["kernels"])
    lines = ["# A session on a GPU", "", f"{total} kernels, {len(index['groups'])} groups.", ""]
    lines += outcome_lines("Results against float64", sheets["check"], total)
    lines += outcome_lines("The same bits again", sheets["bits"], deterministic)
    lines += time_lines(device, times)
    lines += outcome_lines("compute-sanitizer", sheets["sanitize"], f"{len(sheets['sanitize'])} runs")
    lines += [f"Refused by the compiler: `{row['flags']}`: {row['why']}" for row in index["refused"]]
    (folder / "report.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
