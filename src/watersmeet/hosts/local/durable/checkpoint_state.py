"""What the checkpoint of a run in-process remembers, as text. Nothing is changed, so the run may be going on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from watersmeet.errors import RunError
from watersmeet.hosts.local.durable.notes import FILE, RunNotes
from watersmeet.hosts.local.durable.place import Place
from watersmeet.hosts.local.durable.reached import Reached
from watersmeet.hosts.local.durable.snapshots import manifests
from watersmeet.model.time import BEGINNING_US, FOREVER_US, format_instant
from watersmeet.model.wording import aligned, counted, in_bytes

_STREAMS = "clock.clocks."
_WINDOWS = "window_stores."


def is_checkpoint(folder: Path) -> bool:
    """Whether a run in-process wrote this folder, or runs of several queries did below it."""
    return (folder / FILE).exists() or any(folder.glob(f"*/{FILE}"))


def described(folder: Path, batch: int | None = None) -> str:
    """The state of each query whose checkpoint lies there, after its last snapshot or the one of a batch."""
    folders = [folder] if (folder / FILE).exists() else sorted(one.parent for one in folder.glob(f"*/{FILE}"))
    return "\n".join(line for one in folders for line in _lines(Place(one), batch))


def _lines(place: Place, batch: int | None) -> Iterator[str]:
    notes = RunNotes(place).all()
    found = {one["number"]: one for one in manifests(place, notes["run"])}
    reached = Reached(place, notes["run"])
    yield f"{place.shown()}: a run in-process, by watersmeet {notes['version']}"
    if reached.is_known:
        noted = _up_to("noted as answered", reached.given)
        yield f"{_up_to('written down', reached.logged)}; {noted}, and sinks may be ahead of that"
    if not found and batch is None:
        yield "no state was saved yet: a start repeats all batches"
        return
    if batch is not None and batch not in found:
        kept = " and ".join(f"{number:,}" for number in sorted(found)) or "none"
        raise RunError(f"{place.shown()} has no state of batch {batch:,}", hint=f"states are kept of batches: {kept}")
    manifest = found[max(found) if batch is None else batch]
    size = sum(block[2] for block in manifest["blocks"].values())
    yield f"state after batch {manifest['number']:,}: {in_bytes(size)}, {_watermark(manifest['values'])}"
    yield from aligned(_streams(manifest["values"]), left=1)


def _up_to(what: str, number: int) -> str:
    return f"no batch is {what} yet" if number < 0 else f"batches up to {number:,} are {what}"


def _watermark(values: Mapping[str, Any]) -> str:
    at_us = values["clock.watermark_us"]
    return f"watermark {format_instant(at_us)[:19]}" if BEGINNING_US < at_us < FOREVER_US else "no watermark yet"


def _streams(values: Mapping[str, Any]) -> list[list[str]]:
    """A line for each stream: what came of it, how far it is, and how many of its rows windows of a join keep."""
    lines = []
    for name in values["clock.clocks"]["keys"]:
        of = f"{_STREAMS}{name}."
        bad, skipped = sum(values[f"{of}bad.by_reason"]["dict"].values()), values[f"{of}skipped_rows"]
        odd = {"late": values[f"{of}late.count"], "without a time": skipped, "bad": bad}
        told = ", ".join(f"{rows:,} {how}" for how, rows in odd.items() if rows)
        newest_us = values[f"{of}newest_us"]
        newest = f"up to {format_instant(newest_us)[:19]}" if newest_us > BEGINNING_US else ""
        lines.append([f"  {name}", f"{counted(values[f'{of}rows_in'] + skipped + bad, 'row')} came", told, newest])
    lines += [
        [f"  window of {alias}", f"{counted(rows, 'row')} kept", "", ""] for alias, rows in _window_rows(values).items()
    ]
    return lines


def _window_rows(values: Mapping[str, Any]) -> dict[str, int]:
    """Of joins that keep their windows apart, by input."""
    found: dict[str, int] = {}
    for name, head in values.items():
        before, _, rest = name.rpartition(_WINDOWS)
        if name.endswith(".head") and _WINDOWS in name:
            alias = rest.removesuffix(".head")
            found[alias] = found.get(alias, 0) + head - values[f"{before}{_WINDOWS}{alias}.tail"]
    return found
