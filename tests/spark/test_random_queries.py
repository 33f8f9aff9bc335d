"""Random queries on Spark give the reference's answer: over batch DataFrames, and over streams cut at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.effort import EFFORT, PATIENT
from tests.properties.strategies import Case, cases
from tests.properties.test_joins import refuse_contradictions
from tests.runners import by_local_engine, by_reference
from tests.spark.harness import by_spark_batch, by_spark_streaming, cut, expected_of, never_late, with_sentinels

# Shrinking would start hundreds of Spark jobs.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
some = settings(max_examples=15 * EFFORT, deadline=None, suppress_health_check=PATIENT, phases=PHASES)
a_few = settings(some, max_examples=3 * EFFORT)


@some
@given(cases(), st.sampled_from([1, 2, 4]))
def test_batch_frames_give_the_reference_answer(spark, case, buckets):
    refuse_contradictions(case)
    sources = never_late(case.sources)
    answer = by_spark_batch(spark, case.sql, sources, buckets)
    assert answer == by_reference(case.sql, sources)
    assert answer == by_local_engine(case.sql, sources)


def drawn_pieces(data: st.DataObject, case: Case) -> Mapping[str, Sequence[pa.Table]]:
    """Up to three files per stream, of any sizes, also none."""
    made = {}
    for source in case.sources:
        if source.time is not None:
            sizes = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=2))
            made[source.name] = cut(source.table, [*sizes, max(1, source.table.num_rows)])
    return made


@pytest.mark.soak  # tests/spark/test_processor.py does the same without Spark, far faster
@a_few
@given(cases(most_streams=3), st.sampled_from([1, 2, 4]), st.data())
def test_streams_in_random_micro_batches_give_the_reference_answer(spark, tmp_path_factory, case, buckets, data):
    refuse_contradictions(case)
    pieces = drawn_pieces(data, case)
    ended = with_sentinels(case.sources, pieces) if "ROWS" in case.sources_sql else pieces
    folder: Path = tmp_path_factory.mktemp("streams")
    answer = by_spark_streaming(spark, case.sql, case.sources, ended, folder, buckets)
    if "ROWS" in case.sources_sql or len(case.sources_sql.split(", ")) - ("lookup" in case.sources_sql) > 1:
        assert answer == expected_of(case.sql, case.sources, pieces)
    else:  # a single stream has no state and hence no late rows
        assert answer == by_reference(case.sql, never_late(case.sources))
