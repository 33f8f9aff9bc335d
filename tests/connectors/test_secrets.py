"""What is secret is printed nowhere: not in errors, not with the script, not in plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.connectors.test_hostile import Source
from watersmeet.io.connectors import registry
from watersmeet.io.connectors.contract import Connector, Options
from watersmeet.runtime.script import read_script

SECRET = "hush-hush"
OPTIONS = Options(("pin", "user"), prefixes=("odd.",), secret=("pin",))
STREAM = f"CREATE STREAM s WITH (source = 'odd', pin = '{SECRET}', time = 'ts')"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    registry.forget("odd")


def register(source: Any) -> None:
    def table(opening: Any) -> pa.Table:
        raise ValueError(f"wrong pin {opening.options['pin']}")

    wm.register_connector(
        Connector(
            "odd", source=source, table=table, source_options=OPTIONS, table_options=OPTIONS, sink_options=OPTIONS
        )
    )


def test_errors_of_a_connector_say_it_not() -> None:
    def failing(opening: Any) -> Any:
        raise ValueError(f"cannot log in with {opening.options['pin']} here")

    register(failing)
    with pytest.raises(wm.SourceError) as told:
        wm.Session().sql(STREAM)
    assert "cannot log in with *** here" in str(told.value)
    assert SECRET not in repr(told.value.__cause__)
    with pytest.raises(wm.SourceError, match=r"wrong pin \*\*\*"):
        wm.Session().sql(STREAM.replace("STREAM", "TABLE").replace(", time = 'ts'", ""))

    register(lambda opening: Source({"read": wm.SourceError(f"{SECRET} is no pin", hint=f"is it {SECRET}?")}))
    session = wm.Session()
    session.sql(STREAM)
    with pytest.raises(wm.SourceError) as told:
        session.sql("SELECT k FROM s").to_arrow()
    assert (told.value.message, told.value.hint) == ("*** is no pin", "is it ***?")


@pytest.mark.parametrize("wrong", ["latenes = '1 second'", "lateness = 'soon'", "time_unit = 'years'"])
def test_the_line_of_the_script_that_an_error_shows_has_stars(wrong: str) -> None:
    register(lambda opening: Source())
    with pytest.raises(wm.WatersmeetError) as told:
        wm.Session().sql(STREAM.replace("time = 'ts'", f"time = 'ts', {wrong}"))
    assert "pin = '*********'" in str(told.value)
    assert SECRET not in str(told.value)


def test_plans_hold_the_script_without_it(tmp_path: Path) -> None:
    register(lambda opening: Source())
    (job,) = read_script(STREAM + "; SELECT k FROM s")
    assert SECRET not in job.plan.sql
    session = wm.Session()
    query = session.sql(STREAM + "; SELECT k FROM s")
    shown = [query.explain(), query.explain(format="json"), repr(query), repr(query.plan), repr(job)]
    assert not any(SECRET in str(one) for one in shown)
    assert query.to_arrow()["k"].to_pylist() == [1, 2]


def test_what_the_environment_holds_is_no_less_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIN_OF_ODD", SECRET)
    register(lambda opening: Source({"begin": OSError(f"{opening.options['pin']}?")}))
    session = wm.Session()
    query = session.sql("CREATE STREAM s WITH (source = 'odd', pin = '${PIN_OF_ODD}', time = 'ts'); SELECT k FROM s")
    with pytest.raises(wm.SourceError) as told:
        query.to_arrow()
    assert told.value.message == "connector 'odd' failed in begin(): OSError: ***?"


@pytest.mark.parametrize("wrong", ["k BIGINT ts TIMESTAMP", "k BIGINT, ts TIMESTAMP,"])
def test_nor_does_a_script_that_cannot_be_read(wrong: str) -> None:
    register(lambda opening: Source())
    text = STREAM.replace("s WITH", f"s ({wrong}) WITH")
    for read in (lambda: wm.Session().sql(text), lambda: read_script(text)):
        with pytest.raises(wm.SqlError) as told:
            read()
        assert "pin = '*********'" in str(told.value)
        assert SECRET not in str(told.value)
