"""Another query takes the place of one on Spark that has stopped, in its checkpoint.

What it begins with is a savepoint beside what Spark keeps there of the one before. Then a note says that it has the
place, and that write is the instant: a start that finds the note lets go of what Spark kept, and the new query begins
as one does that goes on from a savepoint.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.errors import RunError
from watersmeet.hosts.spark.checkpoints.beginning import Beginning
from watersmeet.hosts.spark.checkpoints.checkpoint import COMMITS, METADATA, OFFSETS, Checkpoint
from watersmeet.hosts.spark.checkpoints.members import FOLDER
from watersmeet.hosts.spark.checkpoints.place import SparkPlace
from watersmeet.hosts.spark.paths import NOTES
from watersmeet.runtime.checkpoints import CheckpointNotes, folder_name

SAVEPOINT = "watersmeet-begins"
_OF_SPARK = (METADATA, OFFSETS, COMMITS, "state", "sources", ".*.crc")
_OF_THE_ONE_BEFORE = ("owner", "run", "starts", "skipped", "committed")


def home_of(folder: Path, query: str) -> Path:
    """Where a query has its checkpoint that takes the place of one which had it there, together with others maybe."""
    return folder.parent / folder_name(query) if folder.name.startswith(FOLDER) else folder


def refuse_replaced(folder: Path, query: str) -> None:
    home = home_of(folder, query)
    if _notes(home).get("replaced") is not None:
        raise RunError(
            f"another query has taken the place of {query} in {folder}, and has not begun yet",
            hint="start the script that it was replaced with once",
        )


def take_place(folder: Path, query: str, beginning: Beginning, script: str) -> None:
    """From here on it is the other query's. script: where that lies."""
    _notes(home_of(folder, query)).note(
        replaced={"folder": str(folder), "query": query, "begun": asdict(beginning), "script": script}
    )


def finish_replacements(spark: SparkSession, folder: str) -> None:
    """Let go of what is kept of queries whose places others have taken; a start before may have been killed at it."""
    if not Checkpoint(spark, folder).place.is_here:
        return
    for home in (Path(folder), *sorted(Path(folder).glob("*/"))):
        notes = _notes(home)
        found = notes.get("replaced")
        if found is None:
            continue
        if Path(found["folder"]) == home:
            _clear(home)
        notes.note(begun=found["begun"], script=found["script"])
        (home / NOTES["replaced"]).unlink()


def has_left(checkpoint: Checkpoint, query: str) -> bool:
    """Whether another has taken the place of one that had a checkpoint together with others, who go on there."""
    if not checkpoint.place.is_here:
        return False
    return _notes(home_of(Path(checkpoint.folder), query)).get("begun") is not None


def release_savepoint(home: Path) -> None:
    """Once a batch has ended nobody asks for it."""
    shutil.rmtree(home / SAVEPOINT, ignore_errors=True)


def _clear(home: Path) -> None:
    kept = {NOTES["replaced"], SAVEPOINT}
    names = [NOTES[one] for one in _OF_THE_ONE_BEFORE]
    for path in [path for part in (*_OF_SPARK, *names) for path in home.glob(part) if path.name not in kept]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _notes(home: Path) -> CheckpointNotes:
    return CheckpointNotes(SparkPlace(None, str(home), is_here=True), NOTES)
