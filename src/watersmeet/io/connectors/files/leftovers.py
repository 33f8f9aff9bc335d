"""What kills have left in the folder of a sink: drafts of commits. A start of the same run removes its own at once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from watersmeet.io.connectors.files.local_folder import PREFIX
from watersmeet.leftovers import Left, older

# As `sink.py` and `local_folder.py` name them. A commit is written in one go; others may belong to runs that write
# again after days.
_DRAFT = re.compile(r"\.part-[0-9a-f]+-\d+-\d{5}-[0-9a-f]{8}\.tmp|\.commit-[0-9a-f]+\.json\..*\.tmp")


def is_of_a_sink(folder: Path) -> bool:
    return any(folder.glob(f"{PREFIX}*"))


def leftovers(folder: Path, older_than_s: float) -> Iterator[Left]:
    lists = [path.read_text(errors="replace") for path in folder.glob(".commit-*.json")]
    listed = {name for text in lists for name in _DRAFT.findall(text)}  # which count already
    drafts = [path for path in folder.glob(".*.tmp") if _DRAFT.fullmatch(path.name) and path.name not in listed]
    for path in sorted(older(drafts, older_than_s)):
        yield Left(path, "a file of a commit that was not written to its end")
