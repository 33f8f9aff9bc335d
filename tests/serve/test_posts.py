"""Rows that are posted: in every form, whole or not at all, and once although they are sent twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.serve.serving import ARROW, JSON, NDJSON, QUICK, Client, lines, row, serving


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with serving(tmp_path) as client:
        yield client


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """For tests that are refused: they leave no trace."""
    with serving(tmp_path_factory.mktemp("served")) as client:
        yield client
        assert settled(client, client.posted("a", ROWS)) == 10


def arrow(rows: list[dict[str, Any]], batches: int = 1) -> bytes:
    table = pa.Table.from_pylist(rows)
    table = table.set_column(2, "ts", table["ts"].cast(pa.timestamp("us")))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=-(-len(rows) // batches))
    return bytes(sink.getvalue())


def taken(client: Client, stream: str = "a") -> int:
    return int(client.get(f"/streams/{stream}").json()["taken"])


def settled(client: Client, told: dict[str, Any]) -> int:
    """How many rows were taken when all queries have answered."""
    for query, number in told["batches"].items():
        client.get(f"/queries/{query}/rows?batch={number}")
    return taken(client, told["stream"])


ROWS = [row(k % 3, k / 2, k) for k in range(10)]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (NDJSON, lines(ROWS)),
        ("application/jsonl; charset=utf-8", lines(ROWS).replace(b"\n", b"\r\n\n")),
        (JSON, json.dumps(ROWS).encode()),
        (JSON, json.dumps(ROWS[0]).encode()),
        (ARROW, arrow(ROWS)),
        (ARROW, arrow(ROWS, batches=4)),
    ],
)
def test_rows_come_in_any_form(client: Client, kind: str, body: bytes) -> None:
    found = client.http.post("/streams/a", content=body, headers={"Content-Type": kind})
    told = found.json()
    assert (found.status_code, told["repeated"]) == (200, False)
    assert told["batches"] == {"groups": 0, "query 2": 0, "query 3": 0}  # all in one batch, however they came
    assert told["rows"] == settled(client, told) == (1 if body == json.dumps(ROWS[0]).encode() else 10)


@pytest.mark.parametrize(
    ("body", "row", "words"),
    [
        ([*ROWS[:4], {**ROWS[4], "k": "five"}, *ROWS[5:]], 5, "column 'k'"),
        ([*ROWS[:9], {**ROWS[9], "k": 1.5}], 10, "column 'k'"),
        ([ROWS[0], {**ROWS[1], "z": 1}], 2, "no column 'z'"),
        ([*ROWS[:7], {**ROWS[7], "ts": None}], 8, "event time 'ts' is NULL"),
        ([*ROWS[:2], {**ROWS[2], "ts": "yesterday"}], 3, "yesterday"),
        ([{**ROWS[2], "ts": 5}], 1, "column 'ts'"),
        ([{"k": 2**70, "v": 1, "ts": "2026-01-01"}], 1, "column 'k'"),
        ([ROWS[0], 7], 2, "row 2 is 7, not an object"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_taken(shared: Client, body: Any, row: int, words: str) -> None:
    found = shared.http.post("/streams/a", content=json.dumps(body), headers={"Content-Type": JSON})
    told = found.json()
    assert (found.status_code, told["row"]) == (400, row), told
    assert words in told["error"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        ("1e999", "line 2: 1e999 is larger than a DOUBLE can be"),
        ("-1e999", "larger than a DOUBLE"),
        ("NaN", "line 2: JSON has no NaN; null is NULL"),
        ("9" * 5000, "line 2 has a number of too many digits; no row"),
    ],
)
def test_a_number_that_no_column_holds_is_refused(shared: Client, number: str, words: str) -> None:
    body = lines(ROWS[:1]) + b'{"k": 1, "v": %s, "ts": "2026-01-01"}' % number.encode()
    found = shared.http.post("/streams/a", content=body, headers={"Content-Type": NDJSON})
    assert (found.status_code, words in found.json()["error"]) == (400, True), found.json()


def test_a_bad_row_of_arrow_is_named(shared: Client) -> None:
    body = arrow([*ROWS[:6], {**ROWS[6], "ts": None}, *ROWS[7:]])
    told = shared.http.post("/streams/a", content=body, headers={"Content-Type": ARROW}).json()
    assert (told["row"], "is NULL" in told["error"]) == (7, True)


def test_no_rows_are_no_repetition(shared: Client) -> None:
    nothing = {"batches": {}, "late": {}, "skipped": 0, "bad": 0, "repeated": False}
    assert shared.posted("a", []) == {"stream": "a", "rows": 0, **nothing}


def test_decimals_keep_their_digits(tmp_path: Path) -> None:
    script = """
        CREATE STREAM a (d DECIMAL(30, 10), v DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
        SELECT d, v FROM a;
    """
    with serving(tmp_path, script) as client:
        body = '{"d": 12345678901234567.0123456789, "v": 1.5, "ts": "2026-01-01"}'
        told = client.http.post("/streams/a", content=body, headers={"Content-Type": NDJSON}).json()
        assert told["rows"] == 1, told
        found = client.get("/queries/query_1/rows?batch=0", Accept=ARROW).content
        (one,) = pa.ipc.open_stream(found).read_all().to_pylist()
        assert one == {"d": Decimal("12345678901234567.0123456789"), "v": 1.5}
        wrong = client.http.post("/streams/a", content=body.replace("1.5", "1e999"), headers={"Content-Type": NDJSON})
        assert wrong.json()["error"].startswith("row 1: 1E+999 is larger than a DOUBLE can be"), wrong.json()


def test_what_an_answer_says_can_be_posted_again(tmp_path: Path) -> None:
    script = """
        CREATE STREAM a (d DECIMAL(6, 2), n INTEGER, ts TIMESTAMP) WITH (time = 'ts');
        SELECT d, n, ts FROM a;
        SELECT ts - TIMESTAMP '2026-01-01 00:00:00' AS took FROM a;
    """
    with serving(tmp_path, script) as client:
        given = [{"d": d, "n": 1, "ts": "2026-01-01 01:30:00.5"} for d in ("1.50", 1.5, 2, "-2", None)]
        client.posted("a", given)
        answer = client.get("/queries/query_1/rows?batch=0").json()["rows"]
        assert [one["d"] for one in answer] == ["1.50", "1.50", "2.00", "-2.00", None]
        assert {one["ts"] for one in answer} == {"2026-01-01T01:30:00.5"}
        client.posted("a", answer)
        assert client.get("/queries/query_1/rows?batch=1").json()["rows"] == answer + answer
        assert client.get("/queries/query_2/rows?batch=1").json()["rows"][0] == {"took": "PT1H30M0.5S"}
        found = client.get("/queries/query_2/rows?batch=1", Accept=ARROW).content
        assert pa.ipc.open_stream(found).read_all().schema.field("took").type == pa.duration("us")
        for wrong, words in (
            (
                {"d": 1.005},
                "column 'd' of stream 'a' is declared DECIMAL(6, 2), and 1.005 has 3 digits behind the point",
            ),
            ({"d": "10000"}, "and '10000' is larger than it can be"),
            ({"n": 2**31}, "column 'n' of stream 'a' is declared INT, and 2147483648 is larger than it can be"),
        ):
            told = client.http.post("/streams/a", json=[given[0], {**given[0], **wrong}]).json()
            assert (told["row"], told["error"].startswith("row 2: ")) == (2, True), told
            assert words in told["error"]
            assert told["hint"].startswith(("round it", "declare"))


def test_a_promise_makes_answers_certain(client: Client) -> None:
    client.posted("a", [row(1, 2, 0), row(1, 3, 1)])
    for _ in range(2):
        told = client.http.post("/streams/a/advance", json={"until": "2026-01-01T12:00:02+00:00"}).json()
        assert client.answer("groups", told["batches"]["groups"]) == [{"k": 1, "n": 2, "total": 5.0}]
    for wrong in (
        "{",
        "[]",
        "{}",
        '{"until": "soon"}',
        '{"until": 5}',
        '{"until": "9999-12-31", "x": 1}',
        "[" * 99_999,
    ):
        found = client.http.post("/streams/a/advance", content=wrong, headers={"Content-Type": JSON})
        assert (found.status_code, set(found.json())) == (400, {"error", "hint"}), wrong
    assert (
        client.http.post("/streams/a/advance", content="{}", headers={"Content-Type": "text/plain"}).status_code == 415
    )


# ---- what is left out -----------------------------------------------------------------------------------------------


def test_rows_that_came_too_late_are_told_by_query(client: Client) -> None:
    """The join has no row of b yet, so nothing is too late for it."""
    client.posted("a", [row(1, 1.0, 30)])
    told = client.posted("a", [row(1, 1.0, 40), row(2, 1.0, 10), row(3, 1.0, 39), row(4, 1.0, 41)])
    assert told["late"] == {"groups": 2, "query 2": 0, "query 3": 2}
    assert (told["rows"], told["skipped"], told["bad"]) == (4, 0, 0)
    assert client.posted("a", [row(1, 1.0, 42)])["late"] == dict.fromkeys(told["late"], 0)


def test_of_posts_that_share_a_batch_each_is_told_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path, settings=replace(QUICK, gather_s=0.5)) as client, ThreadPoolExecutor(4) as posting:
        client.posted("a", [row(1, 1.0, 50)])
        bodies = [[row(1, 1.0, second) for second in some] for some in ([10, 50], [20], [50, 50], [30, 40, 50])]
        told = list(posting.map(lambda rows: client.posted("a", rows), bodies))
    assert len({one["batches"]["groups"] for one in told}) < 4, "some were gathered"
    assert [one["late"]["groups"] for one in told] == [1, 1, 0, 2]


def test_rows_that_are_skipped_or_bad_are_told(tmp_path: Path) -> None:
    script = """
    CREATE STREAM a (k BIGINT, s VARCHAR, ts TIMESTAMP) WITH (time = 'ts', on_null = 'skip', on_bad = 'skip');
    SELECT k, s FROM a;
    """
    with serving(tmp_path, script) as client:
        rows = [{"k": 1, "s": "x", "ts": "2026-01-01 12:00:00"}, {"k": 2, "s": "y", "ts": None}]
        told = client.posted("a", rows)
    assert (told["late"], told["skipped"], told["bad"]) == ({"query 1": 0}, 1, 0)


# ---- once, although sent twice --------------------------------------------------------------------------------------


def test_a_key_is_taken_once(client: Client) -> None:
    first = client.posted("a", ROWS, Idempotency_Key="one")
    again = client.posted("a", ROWS, Idempotency_Key="one")
    assert first["late"] == {"groups": 0, "query 2": 0, "query 3": 0}
    not_looked_at_again = {"late": dict.fromkeys(first["late"]), "skipped": None, "bad": None}
    assert again == {**first, **not_looked_at_again, "repeated": True}
    other = client.posted("a", ROWS, Idempotency_Key="two")
    assert (other["repeated"], settled(client, other)) == (False, 20)


def test_a_key_with_other_rows_is_refused(client: Client) -> None:
    client.posted("a", ROWS, Idempotency_Key="one")
    found = client.post("a", ROWS[:3], Idempotency_Key="one")
    assert (found.status_code, "other rows" in found.json()["error"]) == (422, True)


def test_a_client_counts_its_posts(client: Client) -> None:
    for number in (1, 2, 2, 1):
        client.posted("a", ROWS[number : number + 1], X_Client="me", X_Sequence=str(number))
    told = client.posted("a", ROWS[:1], X_Client="you", X_Sequence="1")
    assert settled(client, told) == 3
    assert client.get("/streams/a").json()["sequences"] == {"me": 2, "you": 1}
    found = client.post("a", ROWS, X_Client="me", X_Sequence="4")
    assert (found.status_code, found.json()["expected"]) == (409, 3)


@pytest.mark.parametrize(
    "headers",
    [
        {"X_Sequence": "0"},
        {"X_Sequence": "-1"},
        {"X_Sequence": "1e3"},
        {"X_Sequence": "9" * 30},
        {"X_Client": "me"},
        {"Idempotency_Key": ""},
        {"Idempotency_Key": "x" * 201},
        {"Idempotency_Key": "x", "X_Sequence": "1"},
    ],
)
def test_a_note_that_says_nothing_is_refused(shared: Client, headers: dict[str, str]) -> None:
    assert shared.post("a", ROWS, **headers).status_code == 400


def test_what_was_taken_is_known_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        client.posted("a", ROWS[:2], Idempotency_Key="one")
        client.posted("a", ROWS[2:4], X_Client="me", X_Sequence="1")
    with serving(tmp_path) as client:
        assert client.get("/streams/a").json()["sequences"] == {"me": 1}
        assert client.posted("a", ROWS[:2], Idempotency_Key="one")["repeated"]
        assert client.posted("a", ROWS[2:4], X_Client="me", X_Sequence="1")["repeated"]
        assert settled(client, client.posted("a", ROWS[4:], X_Client="me", X_Sequence="2")) == 10


def test_many_clients_at_once_lose_nothing(client: Client) -> None:
    """Each sends every post twice, at the same time."""

    def send(number: int) -> list[dict[str, Any]]:
        own = Client(client.url)
        with ThreadPoolExecutor(2) as pool:
            jobs = [
                pool.submit(own.posted, "a", [row(number, post, 1)], Idempotency_Key=f"{number} {post}")
                for post in range(10)
                for _ in range(2)
            ]
            return [job.result() for job in jobs]

    with ThreadPoolExecutor(8) as pool:
        told = [one for some in pool.map(send, range(8)) for one in some]
    assert sum(not one["repeated"] for one in told) == 80
    last = client.posted("a", [row(99, 0, 30)])
    assert settled(client, last) == 81
    totals = {one["k"]: (one["n"], one["total"]) for one in client.answer("groups", last["batches"]["groups"])}
    assert totals == dict.fromkeys(range(8), (10, 45.0))
