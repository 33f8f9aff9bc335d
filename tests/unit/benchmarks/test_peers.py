"""What the table beside other engines takes for right."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from benchmarks import page, peers
from benchmarks.rivals.jvm import FailedError, MissingError, first_error
from benchmarks.rivals.peers.protocol import Asked, Tally


def small(query, folder, rows=1_200):
    """A window of a hundred milliseconds, so that some rows meet and others do not."""
    peers.write_streams(folder, query, rows)
    return Asked(query, str(folder), peers.QUERIES[query], 400, 100, 10**9, 1, {})


def rows_of(asked, stream):
    return asked.rows(stream)


@pytest.mark.parametrize("query", ["join 2", "join 3"])
def test_joins_are_those_of_all_rows_that_are_near(tmp_path, query, monkeypatch):
    monkeypatch.setattr(peers, "WINDOW_MS", 20)  # few keys
    asked = small(query, tmp_path, 300)
    tally = Tally(asked)
    for met in itertools.product(*(rows_of(asked, stream) for stream in asked.streams)):
        times = [row[3] for row in met]
        if len({row[1] for row in met}) == 1 and max(times) - min(times) <= asked.window_ms:
            tally.row(*(row[0] for row in met))
    assert tally.rows > 50
    assert peers.expected(asked, changes=False) == (tally.rows, tally.checksum)


def windows(asked):
    """The rows of every window, by its end in slides."""
    rows = rows_of(asked, "a")
    last = rows[-1][3] // asked.slide_ms + asked.window_ms // asked.slide_ms
    for end in range(1, last + 1):
        until = end * asked.slide_ms
        yield end, [row for row in rows if until - asked.window_ms <= row[3] < until]


@pytest.mark.parametrize("query", ["GROUP BY", "DISTINCT", "top 10"])
def test_windows_have_their_rows(tmp_path, query):
    asked = small(query, tmp_path)
    tally = Tally(asked)
    for end, rows in windows(asked):
        if query == "top 10":
            for row in sorted(rows, key=lambda row: -row[2])[:10]:
                tally.row(end, row[0], row[2])
            continue
        for key, count in Counter(row[1] for row in rows).items():
            total = sum(row[2] for row in rows if row[1] == key)
            tally.row(end, key, *((count, total) if query == "GROUP BY" else ()))
    assert peers.expected(asked, changes=False) == (tally.rows, tally.checksum)


def test_changes_of_the_first_ten_lead_from_one_window_to_the_next(tmp_path):
    asked = small("top 10", tmp_path)
    tally, before, last = Tally(asked), set(), 8
    for end, rows in windows(asked):
        if end > last:
            break
        now = {(row[0], row[2]) for row in sorted(rows, key=lambda row: -row[2])[:10]}
        for sign, changed in ((1, now - before), (2, before - now)):
            for number, value in changed:
                tally.row(end, number, value, sign)
        before = now
    assert peers.expected(replace(asked, last_s=last), changes=True) == (tally.rows, tally.checksum)


def test_rows_come_in_the_order_of_time_and_in_pieces(tmp_path):
    asked = small("join 2", tmp_path)
    pieces = sorted(asked.pieces("a").iterdir())
    assert len(pieces) == peers.PIECES
    assert sum(pq.read_metadata(one).num_rows for one in pieces) == len(rows_of(asked, "a"))


def test_every_engine_that_can_do_nothing_says_why():
    for engine in peers.ENGINES:
        assert all(reason and not reason.endswith(".") for reason in engine.cannot.values())
    found = page.peers(None)
    assert all(f"| {one['engine']} |" in found for one in (page.results("peers") or {"figures": []})["figures"])


def test_what_went_wrong_is_one_line():
    assert (
        first_error("Traceback (most recent call last):\n  File x\nValueError: no\n  warnings.warn(")
        == "ValueError: no"
    )
    assert first_error("INFO\nException in thread main: no\n at x") == "Exception in thread main: no"
    assert first_error("") == "it said nothing"


def runs(*checksums):
    """What a process tells, a second apart."""
    for at, checksum in enumerate(checksums, 1):
        yield float(at), {"rows": 1, "checksum": checksum, "seconds": 0.5, "processor": 0.25, "waited": 0.0}


def test_an_answer_that_is_wrong_has_no_time():
    with pytest.raises(peers.WrongError, match="1 rows with checksum 8 are not the 1 with checksum 7"):
        peers.figures_of(runs(7, 8), (1, 7))
    found = peers.figures_of(runs(7, 7, 7), (1, 7))
    assert (found["cold_s"], found["warm_s"], found["processor_s"]) == (1.0, 0.5, 0.25)


def test_what_reading_topics_takes_is_told_apart():
    lines = [*runs(7, 7), (3.0, {"topics_s": 0.125})]
    assert peers.figures_of(iter(lines), (1, 7))["topics_s"] == 0.125


def test_an_engine_that_hangs_is_ended(tmp_path):
    lines = peers.lines_of([sys.executable, "-c", "import time; time.sleep(60)"], str(tmp_path), 0.5)
    with pytest.raises(FailedError, match="it was not done after 0 s"):
        list(lines)


def test_why_there_is_no_number_is_a_line(tmp_path):
    def missing(asked: Asked) -> list[str]:
        raise MissingError("a broker did not start:\n  it said this\nand that")

    found = peers.measured(peers.Engine("x", missing, "", {}), small("join 2", tmp_path), 1.0)
    assert found["left_out"] == "a broker did not start: it said this and that"


def test_a_slow_engine_is_asked_of_fewer_rows_and_less_often(tmp_path):
    slow, quick = (peers.asked_at(pace, "join 2", tmp_path, 1_000, 3) for pace in (peers.Pace(200, 1), peers.Pace()))
    assert (slow.rows_in_all, len(slow.rows("a")), slow.runs) == (200, 100, 2)
    assert (quick.rows_in_all, len(quick.rows("a")), quick.runs) == (1_000, 500, 4)
    assert peers.asked_at(peers.Pace(), "join 2", tmp_path, 1_000, 3) == quick
    assert peers.expected(slow, changes=False) != peers.expected(quick, changes=False)


def test_paces_are_of_queries_that_are_asked():
    for engine in peers.ENGINES:
        assert set(engine.paces) <= set(peers.QUERIES) - set(engine.cannot)


def test_figures_of_another_input_are_no_part_of_the_table(tmp_path):
    path, about = tmp_path / "peers.json", {"cpu": "one", "rows": 10, "runs": 3}
    assert peers.measured_before(path, about) == []
    peers.keep(path, about, [{"engine": "x"}])
    assert peers.measured_before(path, about) == [{"engine": "x"}]
    assert peers.measured_before(path, about | {"rows": 20}) == []
