"""A stream that begins with what was kept of it and goes on live: no row is missing, and none comes twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.connectors.lives import POINTS, Script, killed_again_and_again
from tests.connectors.shelf import SHELF, put, written
from tests.connectors.test_driving import _shelf, rows_in, rows_of  # noqa: F401
from tests.connectors.test_kills import COMMITS

AT = "1970-01-01 00:00:30"
HALF = pa.scalar(30_000_000, pa.int64()).cast(pa.timestamp("us"))


@pytest.fixture
def both(tmp_path: Path) -> pa.Table:
    """Rows of a minute: the first 40 seconds were kept, the last 40 are still on the shelf."""
    rows = rows_of("a", 600)
    seconds = pc.divide(rows["ts"].cast(pa.int64()), 1_000_000)
    (tmp_path / "kept").mkdir()
    kept = rows.filter(pc.less(seconds, 40))
    for number in range(3):  # the newest first, as files have no order
        pq.write_table(kept.take(pa.array(range(2 - number, len(kept), 3))), tmp_path / "kept" / f"{number}.parquet")
    live = rows.filter(pc.greater_equal(seconds, 20))
    for start in range(0, len(live), 100):
        put(tmp_path / "a", f"partition{start // 100 % 2}", live.slice(start, 100))
    return rows


def stream(folder: Path, handover: str = AT, more: str = "") -> str:
    return (
        "CREATE STREAM a (id BIGINT, k BIGINT, v DOUBLE, ts TIMESTAMP) WITH "
        f"(source = 'shelf', folder = '{folder / 'a'}', time = 'ts', lateness = '1 minute', history = 'parquet', "
        f"history_path = '{folder / 'kept'}', handover = '{handover}'{more});"
    )


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def ran(query: wm.Query, folder: Path) -> wm.Run:
    """To the end of what is there, into a shelf."""
    sink = {"sink": "shelf", "folder": str(folder / "out")}
    run = query.start(checkpoint=folder / "checkpoint", sink=sink, available_now=True, flush=True)
    run.wait()
    return run


def test_a_whole_answer_has_every_row_once(tmp_path: Path, both: pa.Table) -> None:
    session = wm.Session()
    session.sql(stream(tmp_path))
    query = session.sql("SELECT id FROM a")
    with pytest.warns(wm.DataWarning, match="handed_over_rows: .* of stream 'a' lie on the other side of its handover"):
        assert ids(query.to_arrow()) == ids(both)
    assert query.metrics()["left_out_by_stream"]["a"] > 0


def test_a_run_that_goes_on_has_every_row_once_and_tells_of_the_handover(tmp_path: Path, both: pa.Table) -> None:
    session = wm.Session()
    session.sql(stream(tmp_path))
    with pytest.warns(wm.ConnectorWarning, match="handover") as told:
        run = ran(session.sql("SELECT id FROM a"), tmp_path)
    assert ids(written(tmp_path / "out")) == ids(both)
    texts = [str(one.message) for one in told if isinstance(one.message, wm.WatersmeetWarning)]
    before = pc.sum(pc.less(both["ts"], HALF)).as_py()
    assert any(f"{before:,} rows of its history were read" in text for text in texts)
    assert any("lie on the other side of its handover and are left out: there they come once" in text for text in texts)
    kept, seconds = pq.read_table(tmp_path / "kept"), pc.divide(both["ts"].cast(pa.int64()), 1_000_000)
    live = pc.sum(pc.greater_equal(seconds, 20)).as_py()
    assert run.metrics()["left_out_by_stream"] == {"a": kept.num_rows + live - both.num_rows}


def test_kills_in_the_history_and_behind_it_change_nothing(tmp_path: Path, both: pa.Table) -> None:
    text = (
        stream(tmp_path) + f"CREATE SINK out WITH (sink = 'shelf', folder = '{tmp_path / 'out'}') AS SELECT id FROM a"
    )
    script = Script(text, tmp_path / "checkpoint", "tests.connectors.shelf:register")
    assert killed_again_and_again(script, (*POINTS, *COMMITS), seed=2, kills=4)
    assert ids(written(tmp_path / "out")) == ids(both)


def test_a_handover_at_an_offset_takes_all_of_the_history(tmp_path: Path, both: pa.Table) -> None:
    kept, live = pq.read_table(tmp_path / "kept").num_rows, 0
    session = wm.Session()
    session.sql(stream(tmp_path, '{"partition0": 1}'))
    answer = session.sql("SELECT id FROM a").to_arrow()
    for partition, first in (("partition0", 1), ("partition1", 0)):
        for number in range(first, len(list((tmp_path / "a" / partition).glob("*.json")))):
            live += len((tmp_path / "a" / partition / f"{number}.json").read_text().splitlines())
    assert answer.num_rows == kept + live


def test_a_handover_at_the_start_takes_all_of_both(tmp_path: Path, both: pa.Table) -> None:
    session = wm.Session()
    session.sql(stream(tmp_path, "start", ", start = 'latest'"))
    query, sink = session.sql("SELECT id FROM a"), {"sink": "shelf", "folder": str(tmp_path / "out")}
    more = rows_of("more", 9)
    with pytest.warns(wm.ConnectorWarning, match="handover: .*rows of its history were read"):
        query.start(checkpoint=tmp_path / "checkpoint", sink=sink, available_now=True).wait()
    put(tmp_path / "a", "partition0", more)  # while nobody reads
    query.start(checkpoint=tmp_path / "checkpoint", sink=sink, available_now=True, flush=True).wait()
    assert written(tmp_path / "out").num_rows == pq.read_table(tmp_path / "kept").num_rows + 9


def test_a_connector_may_be_the_history_too(tmp_path: Path) -> None:
    rows = rows_of("a", 100)
    put(tmp_path / "old", "one", rows)
    put(tmp_path / "new", "one", rows)
    session = wm.Session()
    session.stream(
        "a", source=SHELF.name, folder=str(tmp_path / "new"), time="ts", history="shelf",
        history_folder=str(tmp_path / "old"), handover=AT,
    )  # fmt: skip
    assert ids(session.sql("SELECT id FROM a").to_arrow()) == ids(rows)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("history = 'parquet', history_path = 'x'", "handover = '', which is no time"),
        ("history = 'parquet', history_path = 'x', handover = 'soon'", "handover = 'soon', which is no time"),
        ("history = 'parquet', history_path = 'x', handover = '{'", "handover = '{', which is no JSON"),
        ("history = 'parquet', history_pth = 'x', handover = 'start'", "the history of a' has no option 'pth'"),
        ("handover = 'start'", "'a' says handover and no history"),
        ("history_path = 'x'", "'a' says history_path and no history"),
        ("history = 'nothing', handover = 'start'", "there is no source 'nothing'"),
    ],
)
def test_what_is_said_wrongly_is_refused(options: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(wm.WatersmeetError) as error:
        wm.Session().sql(f"CREATE STREAM a WITH (source = 'shelf', folder = '{tmp_path}', time = 'ts', {options})")
    assert sentence in str(error.value)


def test_rows_without_a_time_go_where_bad_records_go_on_both_sides(tmp_path: Path) -> None:
    rows = rows_of("a", 40)
    timeless = pa.table({"id": [900], "k": [1], "v": [0.0], "ts": pa.array([None], pa.timestamp("us"))})
    pq.write_table(pa.concat_tables([rows.slice(0, 20), timeless]), tmp_path / "kept.parquet")
    put(tmp_path / "a", "one", pa.concat_tables([timeless, rows.slice(10)]))
    session = wm.Session()
    at = str(rows["ts"][15].as_py())
    session.stream(
        "a", source="shelf", folder=str(tmp_path / "a"), time="ts", lateness="1 minute", history="parquet",
        history_path=str(tmp_path / "kept.parquet"), handover=at, on_bad="skip",
    )  # fmt: skip
    with pytest.warns(wm.ConnectorWarning, match="handover: .*15 rows of its history were read"):
        run = ran(session.sql("SELECT id FROM a"), tmp_path)
    assert ids(written(tmp_path / "out")) == ids(rows)
    assert run.metrics()["bad_by_reason"] == {"a: null time": 2}
