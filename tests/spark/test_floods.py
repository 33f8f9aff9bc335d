"""A row in the far future brings about more answers than memory holds: they leave a bucket block by block."""

from __future__ import annotations

import datetime as dt
import logging
import pickle
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tests.runners import Source, bound_plan
from tests.spark.simulation import Durable, Handle
from watersmeet.hosts.spark.bucket import processor
from watersmeet.hosts.spark.bucket.batch import bucket_answer
from watersmeet.hosts.spark.bucket.output import PackedOutput
from watersmeet.hosts.spark.bucket.stage import BucketStage
from watersmeet.hosts.spark.exchange.pack import GUARD, packer
from watersmeet.hosts.spark.jobs.job import SparkJob
from watersmeet.hosts.spark.jobs.kinds import job_of

TIMES = [dt.datetime(2026, 1, 1), dt.datetime(9999, 1, 1)]
ROWS = pa.table({"k": [1, 2], "ts": pa.array(TIMES, pa.timestamp("us"))})
SQL = "SELECT RSTREAM COUNT(*) AS n FROM s [UNBOUNDED] EVERY 1 SECOND"


def packed() -> tuple[SparkJob, pa.Table]:
    job = job_of(bound_plan(SQL, [Source("s", ROWS, "ts", "0 seconds")]), {}, 1)
    packets = pa.Table.from_batches(packer(job, "s")(iter(ROWS.to_batches())))
    return job, packets.filter(pa.compute.not_equal(packets["bucket"], GUARD))


def test_a_bucket_of_bounded_input_is_answered_block_by_block(caplog: pytest.LogCaptureFixture) -> None:
    job, packets = packed()
    with caplog.at_level(logging.WARNING, logger="watersmeet"):
        blocks = list(islice(bucket_answer(job)(iter(packets.to_batches())), 3))
    assert [block.num_rows > 0 for block in blocks] == [True] * 3
    assert "the row of 9999-01-01" in caplog.text
    assert "max_future" in caplog.text


def test_a_bucket_of_a_stream_is_answered_frame_by_frame(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, warm_copies: Path
) -> None:
    monkeypatch.setattr(processor, "OUTPUT_BYTES", 1 << 14)
    job, packets = packed()
    stage = BucketStage(job, PackedOutput(job.plan.output_schema))
    handle = Handle(Durable(), lambda: None)
    handle.key = (0,)
    stage.init(handle)  # type: ignore[arg-type]
    one = processor.BucketProcessor(*pickle.loads(stage.shipped), stage.meta, stage.segments)
    times = SimpleNamespace(getCurrentWatermarkInMs=int, getCurrentProcessingTimeInMs=lambda: 1)
    key = (packets["bucket"][0].as_py(),)
    with caplog.at_level(logging.WARNING, logger="watersmeet"):
        frames = list(islice(one.turn(key, iter([packets.to_pandas()]), times), 3))  # type: ignore[arg-type]
    assert len(frames) == 3
    assert "max_future" in caplog.text
