"""Measured results on disk: one JSON file per experiment, scale and seed, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.io.whole_files import write_whole
from watersmeet.lab.experiment import SCALES, Panel, Result, Scale


@dataclass(frozen=True)
class Record:
    """One run: what it was given, what it ran on, and what it measured. `code` is a sum over `modules`, which it ran
    through; they are one text, as a list of some hundred lines would hide the numbers."""

    experiment: str
    scale: Scale
    seed: int
    settings: Mapping[str, Any]
    code: str
    commit: str | None
    machine: Mapping[str, Any]
    seconds: float
    result: Result
    modules: str = ""


def path_of(folder: Path, experiment: str, scale: Scale, seed: int) -> Path:
    return folder / scale / f"{experiment}-seed{seed}.json"


def save(folder: Path, record: Record) -> Path:
    path = path_of(folder, record.experiment, record.scale, record.seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _as_json(record).encode(), on_disk=False)
    return path


def load(path: Path) -> Record:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        measured = content.pop("result")
        panels = [Panel(**panel) for panel in measured["panels"]]
        return Record(**content, result=Result(panels, measured["numbers"]))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DataError(
            f"{path} cannot be read as a result of the lab ({type(error).__name__}: {error})",
            hint="delete it and run its experiment again",
        ) from error


def find(folder: Path, experiment: str, scale: Scale, seed: int) -> Record | None:
    path = path_of(folder, experiment, scale, seed)
    return load(path) if path.exists() else None


def records(folder: Path) -> list[Record]:
    """Every record of a folder, by experiment, scale and seed."""
    paths = [path for scale in SCALES for path in sorted((folder / scale).glob("[!.]*.json"))]
    found = [load(path) for path in paths]
    return sorted(found, key=lambda one: (one.experiment, SCALES.index(one.scale), one.seed))


def plain(value: Any) -> Any:
    """A value as it comes back from JSON: what was stored can then be compared with what would be."""
    return json.loads(json.dumps(value, default=_plain_number))


def _as_json(record: Record) -> str:
    try:
        # NaN is no JSON; what was not measured has no point (None).
        return json.dumps(asdict(record), indent=1, default=_plain_number, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise DataError(f"{record.experiment} measured something that is no number: {error}") from error


def _plain_number(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's, and any sequence as a list."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} {value!r}")
