"""A checkpoint that lies elsewhere than where it was made. Spark writes into it, with whole paths, where the schemas of
the state are, so that from another place it would fail in its first batch, in words of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

_STATE = "/state/"
_HERE = "file:"


def made_at(folder: str) -> str | None:
    """The folder in which a checkpoint of this machine was made, if that is another and is not there any more."""
    if sys.platform == "win32":  # where the paths that Spark writes are spelt in another way
        return None
    for named in _schema_files(Path(folder)):
        path = "/" + named.removeprefix(_HERE).lstrip("/")
        home = path.rpartition(_STATE)[0]
        if named.startswith(_HERE) and home not in ("", folder) and not Path(path).exists():
            return home
    return None


def _schema_files(folder: Path) -> Iterator[str]:
    """As the newest note of every operator with a state names them."""
    for notes in sorted(folder.glob("state/*/_metadata/v2")):
        numbers = [int(one.name) for one in notes.iterdir() if one.name.isdigit()]
        if not numbers:
            continue
        try:
            held = json.loads((notes / str(max(numbers))).read_text(encoding="utf-8").partition("\n")[2])
            yield from (str(path) for store in held["stateStoreInfo"] for path in store["stateSchemaFilePaths"])
        except (OSError, ValueError, KeyError, TypeError):  # written in another way: Spark will say what is wrong
            continue
