"""The format of files, as their names tell it.

Sources of Spark use it, for which processes are started: the module imports next to nothing.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import PurePath

SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".json": "json", ".jsonl": "json",
    ".ndjson": "json",
}  # fmt: skip
SPELLINGS = {"jsonl": "json", "ndjson": "json"}
ALIASES = {**SPELLINGS, "tsv": "csv"}  # where it is read: a tsv is a csv with another delimiter
KINDS = ("parquet", "csv", "json")
_PACKED = (".gz", ".bz2", ".zst")  # Arrow unpacks these by itself


def written_kind(path: str) -> str | None:
    """The format that the end of a path says, of whatever it is the path."""
    return next((kind for suffix, kind in SUFFIXES.items() if path.lower().endswith(suffix)), None)


def named_kind(name: str) -> str | None:
    """The format that a file is named after, if any.

    >>> named_kind("a.tsv.gz"), named_kind("b.parquet"), named_kind("x/c.d"), named_kind("e")
    ('tsv', 'parquet', None, None)
    """
    return _kind_of_end("".join(PurePath(name).suffixes))


def is_data_name(name: str, kind: str | None) -> bool:
    """Whether a file with that name is data of a format, or of any."""
    found = data_kind(name)
    return found is not None and kind in (None, found)


def data_kind(name: str) -> str | None:
    """The format of the data in a file with that name; None if it is no data."""
    # The rule of Spark and Hive: _SUCCESS and the like are marks, not data.
    if is_hidden(name):
        return None
    found = _kind_of_end(name[name.find(".") :] if "." in name else "")
    return None if found is None else ALIASES.get(found, found)


def is_hidden(name: str) -> bool:
    """Whether readers of a data folder pass over a file or a folder with that name."""
    return name[:1] in ("", ".", "_")


@lru_cache(maxsize=10_000)
def _kind_of_end(end: str) -> str | None:
    """Of a million names most end in the same way, which is looked at once."""
    suffixes = [one.lower() for one in PurePath(f"x{end}").suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None
