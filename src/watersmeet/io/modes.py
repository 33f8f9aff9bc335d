"""mode = 'error', 'append' or 'overwrite' of files: what is in the way of a new run, and what it may replace."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pyarrow.fs as pa_fs

from watersmeet.errors import SinkError

MODES = ("error", "overwrite", "append")
SPARK_LOG = "_spark_metadata"  # Spark's log of the files of every batch, in the folder itself: its readers go by it
# What runs call their files, ours and Spark's.
_PART = re.compile(r"part-[0-9a-f]+-[0-9a-f-]+\b.*")


def mode_of(name: str, options: Mapping[str, str]) -> str:
    mode = options.get("mode", "error").lower()
    if mode not in MODES:
        raise SinkError(f"sink {name!r} has mode = {mode!r}; it may be 'error', 'overwrite' or 'append'")
    return mode


def visible_files(files: pa_fs.FileSystem, folder: str) -> list[str]:
    """All that is below a folder, by paths in it, but for what readers pass over."""
    found = files.get_file_info(pa_fs.FileSelector(folder, allow_not_found=True, recursive=True))
    inside = (one.path[len(folder) :].lstrip("/") for one in found if one.type != pa_fs.FileType.Directory)
    return sorted(path for path in inside if not any(part[:1] in "._" for part in path.split("/")))


def not_replaceable(files: Sequence[str], columns: Sequence[str]) -> str | None:
    """Overwriting removes files of runs that lie where those of the new one will; the first that is none, if any is.

    >>> not_replaceable(["k=1/part-0a1b-000.csv"], ["k"]), not_replaceable(["part-0a1b-000.csv", "thesis.txt"], [])
    (None, 'thesis.txt')
    """
    return next((one for one in files if not _is_answer(one, columns)), None)


def _is_answer(path: str, columns: Sequence[str]) -> bool:
    *folders, name = path.split("/")
    by_value = len(folders) == len(columns) and all(map(str.startswith, folders, (f"{one}=" for one in columns)))
    return by_value and _PART.fullmatch(name) is not None


def check_replaceable(where: str | Path, files: Sequence[str], columns: Sequence[str]) -> None:
    odd = not_replaceable(files, columns)
    if odd is not None:
        by_value = f"not a folder that is partitioned by {' and '.join(columns)}"
        raise SinkError(
            f"{where} is {by_value if columns else 'a folder that no query wrote'}, and overwrite would remove it",
            hint=f"remove {odd} yourself, or choose another path",
        )


def in_the_way(what: str, *, can_append: bool = True, has_checkpoint: bool = True) -> SinkError:
    """what: is where, as a sentence."""
    adding = "mode = 'append' to add to it, " if can_append else ""
    others = "choose another path, or go on with the checkpoint it was written with"
    rest = others if has_checkpoint else "or choose another path"
    return SinkError(what, hint=f"say {adding}mode = 'overwrite' to replace it, {rest}")


def is_file_not_folder(where: str | Path) -> SinkError:
    return SinkError(f"{where} is a file, but answers go into a folder of files", hint="choose another path")


def replaced_path(options: Mapping[str, str]) -> str | None:
    """The path whose content a sink replaces when its run begins; None if it replaces nothing.

    >>> replaced_path({"path": "out", "MODE": "overwrite"}), replaced_path({"path": "out"})
    ('out', None)
    """
    given = {name.lower(): value for name, value in options.items()}
    return str(given["path"]) if given.get("mode", "").lower() == "overwrite" and given.get("path") else None


def appending(options: Mapping[str, str], replaced: Collection[str]) -> dict[str, str]:
    """The options of a sink whose run has replaced what was at these paths: what is there since is added to.

    >>> appending({"path": "out", "mode": "overwrite"}, {"out"})
    {'path': 'out', 'mode': 'append'}
    """
    given = {name.lower(): value for name, value in options.items()}
    return {**given, "mode": "append"} if replaced_path(given) in replaced else given
