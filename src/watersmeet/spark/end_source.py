"""A source that only tells that a run has ended, for streams that cannot tell so themselves: DataFrames of the user's.

It is in the plan of a query from the start, as Spark takes a checkpoint only with the number of sources it had. It
gives nothing until a run is named to it. Its offset names the run, so a batch that is repeated ends the same run.

The module imports next to nothing, because Spark starts a Python process for every such source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

FORMAT = "watersmeet_end"


class EndOfInput(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "run string"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return EndReader(dict(self.options))


@dataclass
class RunPartition(InputPartition):
    run: str


class EndReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Mapping[str, str]) -> None:
        self.ending = options.get("ending")

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing to do, but without it Spark would run one batch only, whatever the other sources can."""

    def initialOffset(self) -> dict[str, Any]:
        return {"ended": ""}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        if self.ending:
            return {"ended": self.ending}
        return start if start is not None else self.initialOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [RunPartition(end["ended"])] if end["ended"] and end != start else []

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        assert isinstance(partition, RunPartition)
        yield (partition.run,)
