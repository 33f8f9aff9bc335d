"""What a server tells: queries, plans, answers, streams, metrics; and what it says to whoever asks wrongly."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serve.serving import ARROW, Client, row, serving
from watersmeet.serve.app import PATHS


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """With a few rows in it."""
    with serving(tmp_path_factory.mktemp("served")) as client:
        client.posted("a", [row(1, 2.5, 0), row(1, 4, 1), row(2, 3, 2), row(3, 9, 2)])
        told = client.posted("b", [{"k": 1, "w": "x", "ts": "2026-01-01T12:00:03Z"}])
        client.get(f"/queries/query_2/rows?batch={told['batches']['query 2']}")
        # What is at an instant is certain when a later one has come.
        told = client.posted("a", [row(7, 0, 5)])
        client.answer("groups", told["batches"]["groups"])
        client.answer("query_3", told["batches"]["query 3"])
        yield client


def test_the_answer_is_what_the_rows_add_up_to(client: Client) -> None:
    found = client.get("/queries/groups/answer").json()
    assert sorted(found["rows"], key=lambda one: one["k"]) == [
        {"k": 1, "n": 2, "total": 6.5},
        {"k": 2, "n": 1, "total": 3.0},
        {"k": 3, "n": 1, "total": 9.0},
    ]
    assert found["total"] == 3


def test_an_answer_with_an_order_comes_in_that_order(client: Client) -> None:
    assert [one["v"] for one in client.answer("query 3")] == [9.0, 4.0, 3.0]


def test_an_answer_comes_as_arrow_if_that_is_asked_for(client: Client) -> None:
    found = client.get("/queries/query 3/answer", Accept=ARROW)
    assert found.headers["content-type"] == ARROW
    table = pa.ipc.open_stream(found.content).read_all()
    assert table.column("v").to_pylist() == [9.0, 4.0, 3.0]
    assert found.headers["x-event-id"] == client.get("/queries/query 3/answer").json()["id"]


def test_a_limit_cuts_the_answer_and_says_so(client: Client) -> None:
    found = client.get("/queries/query 3/answer?limit=1").json()
    assert (len(found["rows"]), found["total"]) == (1, 3)


def test_the_last_rows_of_a_join_are_told(client: Client) -> None:
    found = client.get("/queries/query_2/rows").json()["rows"]
    assert sorted(one["v"] for one in found) == [2.5, 4.0]
    assert len(client.get("/queries/query_2/rows?limit=1").json()["rows"]) == 1
    table = pa.ipc.open_stream(client.get("/queries/query_2/rows", Accept=ARROW).content).read_all()
    assert table.schema.names == ["k", "v", "w"]


def test_an_answer_that_only_grows_has_no_present_one(client: Client) -> None:
    found = client.get("/queries/query_2/answer")
    assert found.status_code == 409
    assert "only grows" in found.json()["error"]


def test_queries_are_told_with_plan_columns_and_numbers(client: Client) -> None:
    assert [one["name"] for one in client.get("/queries").json()["queries"]] == ["groups", "query 2", "query 3"]
    found = client.get("/queries/query_2").json()
    assert found["plan"]["join"]["inputs"].keys() == {"a", "b"}
    assert "by hash: k = a.k" in found["plan_text"]
    assert found["columns"] == [
        {"name": "k", "type": "BIGINT"},
        {"name": "v", "type": "DOUBLE"},
        {"name": "w", "type": "STRING"},
    ]
    assert found["metrics"]["rows_in"] == 6
    assert found["metrics"]["results"] == 2


def test_streams_are_told_with_what_was_taken(client: Client) -> None:
    a, b = client.get("/streams").json()["streams"]
    assert (a["name"], a["taken"], b["name"], b["taken"]) == ("a", 5, "b", 1)
    assert a["taken_by_query"] == {"groups": 5, "query 2": 5, "query 3": 5}
    assert client.get("/streams/B").json()["columns"][1] == {"name": "w", "type": "STRING"}


def test_metrics_are_what_prometheus_reads(client: Client) -> None:
    found = client.get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {one.name: one for one in text_string_to_metric_families(found.text)}
    rows_in = {one.labels["query"]: one.value for one in families["watersmeet_rows_in"].samples}
    assert rows_in == {"groups": 5, "query 2": 6, "query 3": 5}
    late = {(one.labels["query"], one.labels["stream"]) for one in families["watersmeet_late_by_stream"].samples}
    assert ("query 2", "b") in late
    assert families["watersmeet_watermark_us"].type == "gauge"
    assert families["watersmeet_posts"].samples[0].value == 3
    assert not any("cache_hits" in name for name in families)  # which is Spark's


def test_no_answer_waits_for_more_bytes(client: Client) -> None:
    """Nagle's algorithm and a delayed acknowledgement would make each of these take 40 ms."""
    took = []
    for _ in range(20):
        started = time.perf_counter()
        assert client.get("/health").status_code == 200
        took.append(time.perf_counter() - started)
    assert min(took) < 0.03


def test_it_says_that_it_is_well(client: Client) -> None:
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/").headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nowhere", 404, "there is no /nowhere"),
        ("/queries/", 404, "there is no query named ''"),
        ("/queries/grops", 404, "there is no query named 'grops'"),
        ("/queries/grops/answer", 404, "there is no query named 'grops'"),
        ("/queries/%2e%2e%2fetc/passwd", 404, "there is no query named"),
        ("/streams/c", 404, "there is no stream that a query reads named 'c'"),
        ("/queries/groups/answer?limit=-1", 400, "limit=-1 is not a whole number"),
        ("/queries/groups/answer?batch=x", 400, "batch=x is not a whole number"),
    ],
)
def test_what_is_not_there_is_told_in_json(client: Client, path: str, status: int, words: str) -> None:
    found = client.get(path)
    assert found.status_code == status
    assert words in found.json()["error"]


def test_a_wrong_path_or_method_tells_what_there_is(client: Client) -> None:
    assert client.get("/nowhere").json()["paths"] == PATHS
    found = client.http.delete("/queries")
    assert (found.status_code, "DELETE is not for /queries") == (405, found.json()["error"])
    assert "GET" in found.headers["allow"]


def test_a_misspelt_query_is_guessed(client: Client) -> None:
    assert client.get("/queries/grops").json()["hint"] == "did you mean 'groups'?"


def test_a_stream_with_a_source_takes_no_posts(tmp_path: Path) -> None:
    script = """
        CREATE STREAM a (k BIGINT, ts TIMESTAMP) WITH (path = '{folder}/rows', source = 'json', time = 'ts');
        SELECT k FROM a;
    """
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "1.json").write_text('{"k": 5, "ts": "2026-01-01 12:00:00"}\n')
    with serving(tmp_path, script) as client:
        found = client.post("a", [{"k": 1, "ts": "2026-01-01 12:00:00"}])
        assert (found.status_code, "has data of its own" in found.json()["error"]) == (409, True)
        assert client.get("/queries/query_1/rows?batch=0").json()["rows"] == [{"k": 5}]
