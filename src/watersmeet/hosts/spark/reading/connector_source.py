"""The partitions of a connector as offsets and splits: the part of a Python data source that runs on the driver.

An offset tells from where to where its batch reads, each as the connector's own offsets in JSON. So a batch that is
repeated reads the same rows, also the first one of a stream that began at what was newest then. It also tells which
partitions had rows that the batch leaves for later, as time waits for them: a repeat waits for the same. Of files it
names the last that were read, so that it is told when one was written anew since.

Spark starts Python processes for every such source, so the module imports next to nothing; what reads is in
connector_packets.py.
"""

from __future__ import annotations

import base64
import json
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from watersmeet.errors import SourceError
from watersmeet.hosts.spark.reading.changed_files import CHANGED, changed_in_offset
from watersmeet.hosts.spark.reading.splits import (
    DATED,
    EndSplit,
    Moments,
    Offset,
    Part,
    SourceSplit,
    Together,
    in_tasks,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from watersmeet.io.connectors.changed_files import Changed
    from watersmeet.io.connectors.connected_source import ConnectedSource
    from watersmeet.io.connectors.contract import Offsets, PartitionedSource

FORMAT = "watersmeet_partitions"
ROWS_FORMAT = "watersmeet_partition_rows"


class PackedConnector(DataSource):
    """The data source of a connector that hands packets on; its options carry the jobs and the connector's source."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return DATED

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return ConnectorReader(dict(self.options))


class ConnectorReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its options carry the jobs. `ending` is a run that ends for good: its last offset names it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.given = {key.lower(): value for key, value in options.items()}
        self.source = self.given["source"]
        self.encoded_jobs = self.given["jobs"]
        self.ending = self.given.get("ending")
        self.by_arrival = "arrival" in self.given
        self.max_future_us = int(self.given["maxfuture"]) if "maxfuture" in self.given else None
        self.encoded_connector = self.given["connector"]
        self.place = json.loads(self.given["place"]) if "place" in self.given else None
        self.stops_at_what_is_there = False
        self.last: Offsets | None = None  # of a run that takes what is there and ends
        self.is_known = False  # that what is read is what was read before
        self.remembers = False  # the files that were read in lives before
        self.asked: Offset = {}  # what was the start last time
        self.changed: list[Changed] = []  # files, of which the offset behind that tells
        self.noted = ""  # at the other end, how far rows were answered

    @cached_property
    def partitioned(self) -> PartitionedSource:
        # Opened when it is first used: before that Spark waits for this process, and not for long.
        if "folder" in self.given:  # to list files takes less than to read them
            folder: PartitionedSource = pickle.loads(base64.b64decode(self.given["folder"]))
            return self._resumed(folder)
        return self._resumed(connector_from(self.encoded_connector).partitioned)

    def _resumed(self, source: PartitionedSource) -> PartitionedSource:
        if self.place is None:
            return source
        from watersmeet.io.connectors.resumed import ResumedSource

        return ResumedSource(source, self.place)

    def _connected(self) -> ConnectedSource:
        """What tasks read."""
        connected = connector_from(self.encoded_connector)
        return connected if self.place is None else connected.read_by(self._resumed(connected.partitioned))

    def getDefaultReadLimit(self) -> ReadLimit:
        files, rows = self.given.get("maxfilespertrigger"), self.given.get("maxrows")
        if files is not None:
            return ReadMaxFiles(int(files))
        return ReadAllAvailable() if rows is None else ReadMaxRows(int(rows))

    def prepareForTriggerAvailableNow(self) -> None:
        self.stops_at_what_is_there = True

    def initialOffset(self) -> Offset:
        known = self.partitioned.identity() if self.place is None else self.place.get("of")
        read = {} if self.place is None or "files" not in self.place else {"files": json.dumps(self.place["files"])}
        return {"upto": to_text(self.partitioned.begin()), **read} | ({} if known is None else {"of": known})

    def _check(self, offset: Offset) -> None:
        """Once in a process: what is read may have been made anew under the same name since an offset was noted."""
        from watersmeet.io.connectors.identity import check_identity

        if not self.is_known:
            check_identity(self.partitioned, offset.get("of"))
            self.is_known = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """As far as the limit allows; `start` itself if nothing has come, unless it remains to be told that nothing
        will."""
        if "upto" not in start:
            raise self._of_another_reader(start)
        self._check(start)
        self._remember_files(start)
        if "after" in start:  # a batch ended here, and Spark asks for the next only once it is done
            self._note(start["upto"])
        after = json.loads(start["upto"])
        upto, is_last = self._upto(after, limit)
        place = {"after": start["upto"], "upto": to_text(upto)} | {
            name: start[name] for name in ("of",) if name in start
        }
        place |= self._changed_files(start)
        moved = place["after"] != place["upto"] or CHANGED in place
        if moved and not isinstance(limit, ReadAllAvailable):
            place["waiting"] = json.dumps(self._waiting(upto))
        ends = is_last and self.ending is not None
        if (moved or ends) and (files := self.partitioned.watched()) is not None:
            place["files"] = json.dumps(files.noted(upto), separators=(",", ":"))
        if not moved and (not ends or start.get("ended") == self.ending):
            return start
        # Logged with the batch, so that a repeat finds the same rows too far ahead, and of the same arrival; the clock
        # may be set back, and time is not.
        if self.max_future_us is not None:
            place["limit_us"] = str(time.time_ns() // 1000 + self.max_future_us)
        if self.by_arrival:
            place["arrival_us"] = str(max(time.time_ns() // 1000, int(start.get("arrival_us", 0))))
        return {**place, "ended": self.ending} if ends else place

    def _of_another_reader(self, start: Offset) -> SourceError:
        if "folder" in self.given and "logOffset" in start:
            return SourceError(
                f"stream {self.source!r}: this checkpoint was written when Spark's own reader read its files",
                hint="go on with it by packed = 'false' in the WITH of the stream, or start a new checkpoint",
            )
        return SourceError(
            f"stream {self.source!r}: this checkpoint was written when something else read it, or by another version "
            "of watersmeet",
            hint="go on with the script as it was, or start a new checkpoint",
        )

    def _remember_files(self, start: Offset) -> None:
        if not self.remembers and (files := self.partitioned.watched()) is not None:
            files.remember(json.loads(start.get("files", "[]")), json.loads(start["upto"]))
        self.remembers = True

    def _changed_files(self, start: Offset) -> Offset:
        """What tells of files that have changed since they were read. Where the same start is asked about again, no
        batch has come of what was told."""
        files = self.partitioned.watched()
        if files is None:
            return {}
        if (gone := files.gone()) is not None:
            raise SourceError(f"stream {self.source!r}: {gone} does not exist", hint="create the folder first")
        if start != self.asked:
            self.asked, self.changed = start, []
        self.changed += files.changed_files()
        return {CHANGED: changed_in_offset(self.source, self.changed)} if self.changed else {}

    def _waiting(self, upto: Offsets) -> list[str]:
        """The partitions with rows that a limit leaves for later batches. One that is alone keeps nobody waiting, and a
        source of many files need not be asked for all of them."""
        if _are_alone(upto):
            return []
        newest = self.partitioned.newest(upto) if self.last is None else self.last
        return sorted({one.partition for one in self.partitioned.splits(upto, newest)}) if upto != newest else []

    def _upto(self, after: Offsets, limit: ReadLimit) -> tuple[Offsets, bool]:
        """How far to read now, and whether nothing follows in this run."""
        if not self.stops_at_what_is_there:
            return self._newest(after, limit), False
        if self.last is None:
            self.last = self.partitioned.newest(after)
        if isinstance(limit, ReadAllAvailable):
            return self.last, True
        upto = self._step(after, limit, self.last)
        return upto, not self._lies_between(upto, self.last)

    def _newest(self, after: Offsets, limit: ReadLimit, times: int = 1) -> Offsets:
        """As far as so many times a limit allows."""
        if isinstance(limit, ReadMaxFiles):
            files = self.partitioned.watched()
            assert files is not None
            return files.newest_files(after, limit.max_files * times)
        return self.partitioned.newest(after, limit.max_rows * times if isinstance(limit, ReadMaxRows) else None)

    def _step(self, after: Offsets, limit: ReadLimit, last: Offsets) -> Offsets:
        from watersmeet.io.connectors.up_to import step_up_to

        return step_up_to(self.partitioned, after, last, lambda times: self._newest(after, limit, times))

    def _lies_between(self, after: Offsets, upto: Offsets) -> bool:
        from watersmeet.io.connectors.up_to import lies_between

        return lies_between(self.partitioned, after, upto)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        # Not from `start`: where a new run begins may be another place when its first batch is repeated.
        if start == end or "after" not in end:
            return []
        self._check(end)
        self._remember_files(end)
        after, upto = json.loads(end["after"]), json.loads(end["upto"])
        parts = self.partitioned.splits(after, upto) if after != upto else []
        moments = Moments.of(end)
        is_alone = _are_alone(upto)
        rows = [
            SourceSplit(one.partition, one.after, one.upto, number, moments, is_alone)
            for number, one in enumerate(parts)
        ]
        if rows and rows[0].partition:  # one without a name has no time of its own, which others could wait for
            rows[0].waiting = tuple(json.loads(end.get("waiting", "[]")))
        tasks: list[tuple[Part, int | None]] = [(row, part.rows) for row, part in zip(rows, parts, strict=True)]
        run = end.get("ended")  # the same stands in `start` if it was told before
        if run is not None and run != start.get("ended"):
            tasks.append((EndSplit(run), 0))
        return in_tasks(tasks)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from watersmeet.hosts.spark.reading.source_packets import end_of_stream

        for part in partition.parts if isinstance(partition, Together) else [partition]:
            if isinstance(part, EndSplit):
                yield end_of_stream(self.encoded_jobs, self.source, part.run)
            else:
                yield from self.rows_of(part)

    def rows_of(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from watersmeet.hosts.spark.reading.connector_packets import packets_of_split

        assert isinstance(partition, SourceSplit)
        yield from packets_of_split(self.encoded_jobs, self._connected(), self.source, partition)

    def commit(self, end: Offset) -> None:
        """Spark calls it when all up to an offset was answered, mostly a batch later."""
        self._note(end["upto"])

    def _note(self, upto: str) -> None:
        if upto != self.noted:
            self.partitioned.note(json.loads(upto))
            self.noted = upto

    def stop(self) -> None:
        if "partitioned" in vars(self):
            self.partitioned.close()


class ConnectorRows(PackedConnector):
    """The same partitions as rows, for queries that keep no state; its options carry the stream."""

    @classmethod
    def name(cls) -> str:
        return ROWS_FORMAT

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return ConnectorRowsReader(dict(self.options))


class ConnectorRowsReader(ConnectorReader):
    def rows_of(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from watersmeet.hosts.spark.reading.connector_packets import rows_of_split

        assert isinstance(partition, SourceSplit)
        yield from rows_of_split(self.encoded_jobs, self._connected(), partition)


def _are_alone(offsets: Offsets) -> bool:
    """Whether there is but one partition, beside that of a history, which has no name and no clock."""
    return len([partition for partition in offsets if partition]) < 2


def to_text(offsets: Offsets) -> str:
    """
    >>> to_text({"1": (2, 3), "0": None})
    '{"0":null,"1":[2,3]}'
    """
    return json.dumps(dict(offsets), sort_keys=True, separators=(",", ":"))


def connector_from(encoded: str) -> ConnectedSource:
    made: ConnectedSource = pickle.loads(base64.b64decode(encoded))
    return made
