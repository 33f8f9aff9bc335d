"""A user's program with types, which `mypy --strict` must take as it is."""

import asyncio
import datetime as dt
import warnings
from collections.abc import Iterator
from typing import Any

import watersmeet as wm

NOON = dt.datetime(2026, 1, 1, 12)
COLUMNS = {"id": "BIGINT", "ts": "TIMESTAMP"}


def declared() -> wm.Session:
    session = wm.Session(timezone="Europe/Paris")
    time = wm.EventTime("ts", lateness="2 seconds")
    session.stream("orders", schema=COLUMNS, time=time, policy=wm.RowPolicy(null="skip"))
    session.stream("paid", schema=COLUMNS, time="ts", hints=wm.Hints(unique="id"), lateness=dt.timedelta(seconds=2))
    return session


def paid(session: wm.Session, least: int) -> wm.Query:
    text = "SELECT o.id, p.ts FROM orders o, paid p WHERE o.id = p.id AND o.id > :least WINDOW = 1 HOUR"
    query = session.sql(text, {"least": least})
    explained: str = str(query.explain())
    assert "hash" in explained
    return query


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "ts": NOON} for number in numbers]


def pushed(query: wm.Query) -> Iterator[int]:
    with query.start(on_late=lambda stream, late: print(stream, late.num_rows)) as run:
        run.push("orders", rows(1, 2))
        run.push("paid", {"id": [2], "ts": [NOON + dt.timedelta(minutes=5)]})
        run.advance("orders", NOON)
        yield from (row["id"] for row in run.take().to_pylist())


async def pushed_by_coroutines(query: wm.Query) -> int:
    async with query.start_async() as run:
        await run.push("orders", rows(1, 2))
        await run.push("paid", rows(1))
        return int((await run.take()).num_rows)


def results(outcomes: list[wm.Outcome]) -> dict[str, int]:
    return {outcome.name: outcome.metrics["results"] for outcome in outcomes}


def failed(session: wm.Session) -> tuple[str, str | None, tuple[int, int] | None]:
    try:
        session.sql("SELECT x FROM orders")
    except wm.SqlError as error:
        return error.message, error.hint, error.span
    return "", None, None


def main() -> None:
    warnings.filterwarnings("error", "late_rows")
    session = declared()
    query = paid(session, 0)
    print(*pushed(query), asyncio.run(pushed_by_coroutines(query)), failed(session)[0])


if __name__ == "__main__":
    main()
