"""What a run on Spark says of a batch that fails while the run is being stopped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from watersmeet.errors import DataError
from watersmeet.hosts.spark.run import QueryError, SparkRun, _raise_failure
from watersmeet.runtime.run_settings import RunSettings

OURS = "[STREAM_FAILED] watersmeet.errors.DataError: the table of sink 'pairs' is gone\n\tat org.apache.spark"
SPARKS = "[STREAM_FAILED] Query terminated: java.lang.InterruptedException\n\tat org.apache.spark"


def failed(words: str) -> Any:
    query = SimpleNamespace(isActive=False, exception=lambda: RuntimeError(words))
    return SimpleNamespace(query=query, name="pairs", claimed=[])


@pytest.mark.parametrize("stopping", [False, True])
def test_an_error_of_ours_is_told_also_if_a_stop_was_asked_for(stopping: bool) -> None:
    with pytest.raises(DataError, match="the table of sink 'pairs' is gone"):
        _raise_failure(failed(OURS), stopping)


def test_words_of_sparks_own_are_an_error_unless_they_are_about_the_stop() -> None:
    _raise_failure(failed(SPARKS), True)
    with pytest.raises(QueryError, match="InterruptedException"):
        _raise_failure(failed(SPARKS), False)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (OURS, "--skip-batch 3 at a start, or dataframe(skip_batches=[3]), leaves out batch 3, with all its rows"),
        (OURS.replace("is gone", "is gone\nhint: make it"), "make it; --skip-batch 3 at a start"),
        (OURS.replace("the table of sink 'pairs'", "this checkpoint"), None),
    ],
)
def test_where_rows_of_a_batch_fail_it_is_told_how_the_batch_is_left_out(
    monkeypatch: pytest.MonkeyPatch, words: str, hint: str | None
) -> None:
    run = SparkRun(None, [], RunSettings(checkpoint="ck", buckets=1))  # type: ignore[arg-type]
    monkeypatch.setattr(run, "_repeated", lambda one: 3)
    with pytest.raises(DataError) as told:
        run._raise_failure(failed(words))
    assert told.value.hint == hint if hint is None else str(told.value.hint).startswith(hint)
