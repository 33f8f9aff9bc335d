"""Folders that all machines of a cluster must see: tasks write and read there wherever they run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from watersmeet.errors import SetupError
from watersmeet.hosts.spark.launching.launch import cores, is_connect, is_local


def refuse_unshared(spark: SparkSession, written: Iterable[str], read: Iterable[str]) -> None:
    """Refuse folders of the driver's machine that an executor does not have, or has another of. What is written there
    would be missing without a word."""
    if is_connect(spark) or is_local(spark.sparkContext.master or ""):
        return
    with _marked([_existing(Path(one).absolute()) for one in dict.fromkeys(written)]) as marks:
        paths = [*marks.values(), *(str(_existing(Path(one).absolute())) for one in read)]
        names = [*(str(one) for one in marks), *read]
        tasks = cores(spark)
        ask = F.udf(_asking(paths), "string", useArrow=False)
        answers = {row[0] for row in spark.range(0, tasks, 1, tasks).select(ask("id")).collect()}
    for answer in sorted(answers):
        number, _, host = answer.partition(" ")
        if number:
            raise SetupError(
                f"the executor on {host} does not have the folder {names[int(number)]} of this machine",
                hint="give a folder that is the same on all machines, or an address that Spark can reach, such as "
                "hdfs://… or s3a://…",
            )


def _existing(path: Path) -> Path:
    """A folder that is to be made is where its parent is; a pattern where its first part is."""
    while re.search(r"[*?\\[{]", path.name) or not path.is_dir():
        path = path.parent
    return path


@contextmanager
def _marked(folders: Sequence[Path]) -> Iterator[dict[Path, str]]:
    """With a file in each that no other folder of that name has."""
    marks: dict[Path, Path] = {}
    try:
        for folder in folders:
            if folder not in marks:
                mark = folder / f".watersmeet-{uuid4().hex}"
                with suppress(OSError):  # whoever cannot write there says so when it is needed
                    mark.touch()
                    marks[folder] = mark
        yield {folder: str(mark) for folder, mark in marks.items()}
    finally:
        for mark in marks.values():
            mark.unlink(missing_ok=True)


def _asking(paths: Sequence[str]) -> Callable[[int], str]:
    """A function that travels as a whole: which of the paths is not there, if one is not, and where."""

    def ask(_: int) -> str:
        import os
        import socket

        for number, path in enumerate(paths):
            if not os.path.exists(path):
                return f"{number} {socket.gethostname()}"
        return ""

    return ask
