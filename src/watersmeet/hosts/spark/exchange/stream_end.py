"""That a stream has ended, as a source tells every bucket.

The stateful stage never learns which batch is the last one. A source does, and tells: its offsets, which Spark logs
before the batch runs, name the run that is to end, so a batch that is repeated ends the same way.

Streams that cannot tell so themselves, DataFrames of the user's, have a source beside them that does. It is in the plan
of a query from the start, as Spark takes a checkpoint only with the number of sources it had. It is Spark's own reader
of text files, which costs next to nothing where a data source in Python would start processes. Until a run is to end it
finds no files; then one that names the run is written into the checkpoint, which lasts and which all that take part can
reach, so a batch that is repeated reads it again.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING
from uuid import uuid4

from watersmeet.dataclass import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Columns of a first stage, in rows without results: the run in which a bucket has ended, and the time before which it
# will give nothing any more.
END, REACHED = "__end", "__reached"
FOLDER = "watersmeet-ends"
NOWHERE = "file:///watersmeet-no-such-folder-*/*"  # a pattern need not be there, a folder must


@dataclass(frozen=True)
class Ending:
    """A run that ends. It has a name of its own: what an earlier run told of its end does not count in it.

    checkpoint: given once all streams that cannot tell their end have come to it, so that it is told for them.
    """

    checkpoint: str | None = None
    run: str = field(default_factory=lambda: uuid4().hex[:12])


def end_source(spark: SparkSession, ending: Ending | None) -> DataFrame:
    """The names of runs that end, in a column."""
    reader = spark.readStream.schema("run string").format("text")
    if ending is None or ending.checkpoint is None:
        return reader.load(NOWHERE)
    folder = f"{ending.checkpoint.rstrip('/')}/{FOLDER}"
    # Append, because a batch that is repeated may need the file of an earlier end.
    spark.createDataFrame([(ending.run,)], "run string").coalesce(1).write.mode("append").text(folder)
    return reader.load(folder)
