"""A row in the far future brings about more answers than memory holds: they leave a bucket block by block."""

from __future__ import annotations

import datetime as dt
import logging
import pickle
import socket
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from tests.runners import Source, bound_plan
from tests.spark.simulation import Durable, Handle
from watersmeet.errors import DataError
from watersmeet.hosts.spark.bucket import processor
from watersmeet.hosts.spark.bucket.output import PackedOutput
from watersmeet.hosts.spark.bucket.stage import BucketStage
from watersmeet.hosts.spark.bucket.stateless import bucket_answer
from watersmeet.hosts.spark.exchange.pack import packer
from watersmeet.hosts.spark.jobs.group import JobGroup
from watersmeet.hosts.spark.jobs.ids import GUARD
from watersmeet.hosts.spark.jobs.job import AtStart, SparkJob
from watersmeet.hosts.spark.jobs.kinds import job_of
from watersmeet.hosts.spark.jobs.mailbox import Mailbox
from watersmeet.hosts.spark.progress.post_office import Flood, PostOffice

TIMES = [dt.datetime(2026, 1, 1), dt.datetime(9999, 1, 1)]
ROWS = pa.table({"k": [1, 2], "ts": pa.array(TIMES, pa.timestamp("us"))})
SQL = "SELECT RSTREAM COUNT(*) AS n FROM s [UNBOUNDED] EVERY 1 SECOND"


def packed() -> tuple[SparkJob, pa.Table]:
    job = job_of(bound_plan(SQL, [Source("s", ROWS, "ts", "0 seconds")]), {}, 1)
    packets = pa.Table.from_batches(packer(JobGroup((job,)), "s")(iter(ROWS.to_batches())))
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
    stage = BucketStage([(job, PackedOutput(job.plan.output_schema))])
    handle = Handle(Durable(), lambda: None)
    handle.key = (0,)
    stage.init(handle)  # type: ignore[arg-type]
    one = processor.BucketProcessor(*pickle.loads(stage.shipped)[0], stage.meta, stage.segments)
    times = SimpleNamespace(getCurrentWatermarkInMs=int)
    key = (packets["bucket"][0].as_py(),)
    with caplog.at_level(logging.WARNING, logger="watersmeet"):
        frames = list(islice(one.turn(key, iter([packets.to_pandas().assign(now_ms=1)]), times), 3))  # type: ignore[arg-type]
    assert len(frames) == 3
    assert "max_future" in caplog.text


def test_the_driver_hears_of_a_flood_once_from_those_who_have_the_key() -> None:
    heard: list[Flood] = []
    office = PostOffice("127.0.0.1", "127.0.0.1")
    box = office.mailbox(heard.append)
    replace(box, key="nobody's").tell("a stranger")
    with socket.create_connection((box.host, box.port)) as other:
        other.sendall(b"GET / HTTP/1.1\r\n\r\n")
    for sentence in ("very many come", "very many come"):
        box.tell(sentence)
    second = office.mailbox(heard.append)
    second.tell("the last")
    until = time.monotonic() + 20
    while len(heard) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert [str(one) for one in heard] == ["very many come", "the last"]
    assert str(Flood("many", "q", 7)).endswith("dataframe(skip_batches=[7]), leaves out batch 7")


def test_a_task_that_cannot_reach_the_driver_writes_it_into_its_log(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with caplog.at_level(logging.WARNING, logger="watersmeet"):
        Mailbox("127.0.0.1", port, "").tell("very many come")
    assert "very many come" in caplog.text


def test_a_flood_that_would_fill_the_driver_is_refused_before_it_comes() -> None:
    job, packets = packed()
    job = replace(job, start=AtStart(by_driver=True))
    with pytest.raises(DataError, match=r"the row of 9999-01-01.* by way of the driver"):
        next(bucket_answer(job)(iter(packets.to_batches())))
