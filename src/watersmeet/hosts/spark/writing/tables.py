"""A change log applied to a table: what a continuous query's answer is by now, one row per key.

    changes = query.dataframe()                       # _op, _ts, and the columns selected
    table = ParquetTable("answers/by_region", key=["region"])
    changes.writeStream.foreachBatch(table.apply).option("checkpointLocation", "…").start()

`latest` gives the same as a DataFrame of upserts and deletes, for stores that merge by themselves.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from watersmeet.errors import OptionError
from watersmeet.io.whole_files import write_whole
from watersmeet.plan.nodes import AT, OP

POINTER = "current.json"


def latest(changes: DataFrame, key: Sequence[str]) -> DataFrame:
    """What has become of each key in a batch of changes: its row with `_op` `+`, or `-` if it is gone.

    One row per key, so that it can be the source of a MERGE, or be written by JDBC.
    """
    _check_key(changes.columns, key)
    # At one instant "-" comes before "+", so of both the "+" is what the key has become.
    newest_first = Window.partitionBy(*map(_quoted, key)).orderBy(F.col(AT).desc(), (F.col(OP) == "+").desc())
    numbered = changes.withColumn("__place", F.row_number().over(newest_first))
    return numbered.filter("__place = 1").drop("__place")


class ParquetTable:
    """A folder with the rows that are in the answer now, and `_ts`, since when each is.

    Every batch writes the table anew beside the old one and then points to it, so readers and restarts see one whole
    state or the next; the one before the last is removed. A batch that comes again after a restart changes nothing. For
    answers of moderate size, such as one row per group; for large ones use `latest` and a store with MERGE.
    """

    def __init__(self, path: str, key: Sequence[str]) -> None:
        self.folder = Path(path)
        self.key = list(key)

    def apply(self, changes: DataFrame, batch_id: int) -> None:
        """Take in one batch: for `foreachBatch`."""
        held = self._pointer()
        if held is not None and held["batch"] >= batch_id:
            return
        now = latest(changes, self.key).persist()  # used twice below: the query must not run its batch twice for that
        try:
            self._write(now, batch_id, held)
        finally:
            now.unpersist()

    def _write(self, now: DataFrame, batch_id: int, held: dict[str, Any] | None) -> None:
        if held is not None and now.isEmpty():
            self._point({**held, "batch": batch_id})
            return
        arrived = now.filter(F.col(OP) == "+").drop(OP)
        if held is not None:
            before = now.sparkSession.read.parquet(str(self.folder / held["data"]))
            keys = now.select(*map(_quoted, self.key))
            same = [before[_quoted(name)].eqNullSafe(keys[_quoted(name)]) for name in self.key]  # NULL is a key too
            untouched = before.join(keys, same, "left_anti")
            arrived = untouched.unionByName(arrived)
        # A folder of that name may be there: an attempt that failed before it was pointed to. It is written over.
        data = f"batch-{batch_id:08}"
        arrived.write.mode("overwrite").parquet(str(self.folder / data))
        self._point({"batch": batch_id, "data": data})
        # Frames are lazy: one that was read before this batch may be computed after it. So the state before stays.
        kept = {data, held["data"]} if held is not None else {data}
        for folder in self.folder.glob("batch-*"):
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def read(self, spark: SparkSession) -> DataFrame:
        """The table as it is now."""
        held = self._pointer()
        if held is None:
            raise OptionError(f"{self.folder} holds no table yet", hint="start the query that writes it first")
        return spark.read.parquet(str(self.folder / held["data"]))

    def _pointer(self) -> dict[str, Any] | None:
        file = self.folder / POINTER
        return json.loads(file.read_text()) if file.exists() else None

    def _point(self, to: dict[str, Any]) -> None:
        write_whole(self.folder / POINTER, json.dumps(to).encode(), on_disk=False)


def _quoted(name: str) -> str:
    return f"`{name}`"


def _check_key(columns: Sequence[str], key: Sequence[str]) -> None:
    if OP not in columns:
        raise OptionError(
            "these rows are no change log: they have no column _op",
            hint="the log comes from a query with GROUP BY, DISTINCT or a set operation, without ISTREAM",
        )
    if not key:
        raise OptionError("a table needs a key", hint="name the columns that are grouped by")
    for name in key:
        if name not in columns:
            raise OptionError(f"the key {name!r} is not among the columns", hint=f"they are {', '.join(columns)}")
