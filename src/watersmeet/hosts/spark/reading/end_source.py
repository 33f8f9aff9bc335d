"""A source that only tells that a run has ended, for streams that cannot tell so themselves: DataFrames of the user's.

It is in the plan of a query from the start, as Spark takes a checkpoint only with the number of sources it had. It is
Spark's own reader of text files, which costs next to nothing where a data source in Python would start processes.
Until a run is to end it finds no files; then one that names the run is written into the checkpoint, which lasts and
which all that take part can reach, so a batch that is repeated reads it again.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from watersmeet.hosts.spark.exchange.stream_end import Ending

FOLDER = "watersmeet-ends"
NOWHERE = "file:///watersmeet-no-such-folder-*/*"  # a pattern need not be there, a folder must


def end_source(spark: SparkSession, ending: Ending | None) -> DataFrame:
    """The names of runs that end, in a column."""
    reader = spark.readStream.schema("run string").format("text")
    if ending is None or ending.checkpoint is None:
        return reader.load(NOWHERE)
    folder = f"{ending.checkpoint.rstrip('/')}/{FOLDER}"
    # Append, because a batch that is repeated may need the file of an earlier end.
    spark.createDataFrame([(ending.run,)], "run string").coalesce(1).write.mode("append").text(folder)
    return reader.load(folder)
