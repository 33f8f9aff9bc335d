"""What programs on Spark use beside a Session, under names that stay when the rooms behind them move.

>>> from watersmeet.spark import start_spark
>>> spark = start_spark()  # doctest: +SKIP
"""

from watersmeet.hosts.spark.checkpoints.checkpoint import check_checkpoint
from watersmeet.hosts.spark.checkpoints.state import read_state
from watersmeet.hosts.spark.errors import friendly
from watersmeet.hosts.spark.launching.launch import ensure_settings
from watersmeet.hosts.spark.launching.launch import start_spark as _start_spark
from watersmeet.hosts.spark.reading.file_stream import ParquetStream
from watersmeet.hosts.spark.writing.tables import ParquetTable, latest
from watersmeet.noticing import phase
from watersmeet.runtime.notices import notices_by_default

notices_by_default()  # Spark starts before there is a session
start_spark = phase("starting Spark")(_start_spark)

__all__ = [
    "ParquetStream",
    "ParquetTable",
    "check_checkpoint",
    "ensure_settings",
    "friendly",
    "latest",
    "read_state",
    "start_spark",
]
