"""Answers as events: as they come, again after a break, and a clear word where some are gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.serving import Client, Events, listening, row, serving
from watersmeet.serve.limits import Limits

# All that is at an instant comes when a later one has come; rows of a join come at once.
JOIN = "query_2"


def meet(client: Client, number: int) -> None:
    """Make a row of the join."""
    client.posted("a", [row(1, number, 0)])
    client.posted("b", [{"k": 1, "w": f"w{number}", "ts": "2026-01-01 12:00:00"}])


def heard(events: Events, rows: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while sum(len(one["data"]["rows"]) for one in found) < rows:
        found.append(events.next())
    return found


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path, limits=Limits(kept_rows=8, subscribers=3)) as client:
        yield client


def test_rows_are_heard_as_they_come(client: Client) -> None:
    with listening(client, JOIN) as one, listening(client, JOIN) as two:
        meet(client, 1)
        first, second = one.next(), two.next()
        assert first == second
        assert first["data"]["rows"] == [{"k": 1, "v": 1.0, "w": "w1"}]
        assert first["id"].split("-")[1:] == [str(first["data"]["batch"])]


def test_who_comes_back_hears_the_rest(client: Client) -> None:
    with listening(client, JOIN) as events:
        meet(client, 1)
        last = events.next()["id"]
    meet(client, 2)
    with listening(client, JOIN, after=last) as events:
        found = heard(events, 3)
    assert sorted((one["v"], one["w"]) for event in found for one in event["data"]["rows"]) == [
        (1.0, "w2"),
        (2.0, "w1"),
        (2.0, "w2"),
    ]


def test_who_comes_back_too_late_is_told_what_is_gone(client: Client) -> None:
    with listening(client, JOIN) as events:
        meet(client, 1)
        last = events.next()["id"]
    for number in range(2, 6):
        meet(client, number)  # 25 rows in all, of which 8 are kept
    told = client.posted("a", [row(9, 9, 9)])
    client.get(f"/queries/{JOIN}/rows?batch={told['batches']['query 2']}")
    with listening(client, JOIN, after=last) as events:
        missed = events.next()
        assert (missed["event"], missed["data"]["after"]) == ("missed", last)
        found = heard(events, 5)
        assert 0 < sum(len(one["data"]["rows"]) for one in found) <= 8
        assert "id" in found[0]


def test_an_id_of_another_run_is_told_apart(client: Client) -> None:
    for strange in ("abc-1-2", "what", "-", "1-1-1-1"):
        with listening(client, JOIN, after=strange) as events:
            assert "not of this run" in events.next()["data"]["error"]


def test_an_answer_says_from_where_to_listen(client: Client) -> None:
    """The answer and the changes behind it add up to the next answer."""
    told = client.posted("a", [row(1, 1, 0), row(1, 1, 1), row(2, 1, 2)])
    number = told["batches"]["groups"]
    before = client.get(f"/queries/groups/answer?batch={number}").json()
    with listening(client, "groups", after=before["id"]) as events:
        told = client.posted("a", [row(5, 1, 3)])
        event = events.next()
    now = {(one["k"], one["n"]) for one in before["rows"]}
    for one in event["data"]["rows"]:
        (now.add if one["_op"] == "+" else now.remove)((one["k"], one["n"]))
    after = client.answer("groups", told["batches"]["groups"])
    assert now == {(one["k"], one["n"]) for one in after} == {(1, 2), (2, 1)}


def test_no_more_listen_than_are_allowed(client: Client) -> None:
    with listening(client, JOIN), listening(client, "groups"), listening(client, JOIN):
        found = client.get(f"/queries/{JOIN}/changes")
        assert (found.status_code, found.headers["retry-after"]) == (503, "1")
        assert "--max-subscribers" in found.json()["hint"]
    while "watersmeet_subscribers 0.0" not in client.get("/metrics").text:
        pass
    with listening(client, JOIN) as events:
        meet(client, 1)
        assert events.next()["data"]["rows"]


def test_who_listens_hears_of_the_end_and_goes_on_in_the_next_life(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        meet(client, 1)
        other = Client(client.url)
        stream = other.http.stream("GET", f"/queries/{JOIN}/changes?after=x")
        events = Events(stream.__enter__())
        assert events.next()["event"] == "missed"
        last = heard(events, 1)[-1]["id"]
    assert events.next()["event"] == "end"
    stream.__exit__(None, None, None)
    with serving(tmp_path) as client, listening(client, JOIN, after=last) as events:
        meet(client, 2)
        assert len(heard(events, 3)) >= 1
