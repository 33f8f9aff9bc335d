"""Every type that Arrow has, in every clause, on Spark: the answer of a run in-process, or a sentence.

What Spark's Java does with a type is the same whatever is asked of it. What we do with it, from packets to the state
and back, is tried clause by clause without Java.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.runners import Source
from tests.spark.simulation import Simulation, another_node
from tests.types.clauses import NESTED, PLAIN
from tests.types.kinds import KINDS, OF_A, OF_B, Kind, stream
from tests.types.test_clauses import OF_EACH_TYPE, clauses_of, declared, of_ranks
from watersmeet.errors import CatalogError
from watersmeet.hosts.spark.bucket.stateless import stateless_answer
from watersmeet.hosts.spark.types import spark_schema
from watersmeet.io.conform import conform, entered
from watersmeet.model.catalog import Table
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import relations_below


@pytest.fixture(autouse=True)
def _own_warm_copies(warm_copies: Path) -> None:
    """What a worker leaves behind is this test's alone."""


def answered(plan: Plan, kind: Kind) -> pa.Table:
    """By buckets, from rows of two batches; between them all is lost but the state."""
    rows = {"a": stream(kind, OF_A), "b": stream(kind, OF_B), "t": stream(kind, OF_B)}
    rows |= {} if kind.is_nested else {"n": stream(kind, [0, 1, 0, 1])}
    spark_schema(plan.output_schema)
    sources = [
        Source(one.name, pa.Table.from_batches(entered(rows[one.name].to_batches(), one)), None)
        if isinstance(one, Table)
        else Source(one.name, rows[one.name])
        for one in relations_below(plan.root)
    ]
    run = Simulation("", sources, 2, plan=plan)
    run.job.check()
    if run.job.is_stateless:
        (only,) = run.streams.values()
        given = list(stateless_answer(run.job)(iter(only.table.to_batches())))
        return pa.Table.from_batches([conform(one, plan.output_schema) for one in given], plan.output_schema)
    run.batch({name: one.table.slice(0, 3) for name, one in run.streams.items()})
    another_node()
    run.batch({name: one.table.slice(3) for name, one in run.streams.items()}, ended=list(run.streams))
    return run.table()


def ranked(answer: pa.Table, kind: Kind) -> Counter[str]:
    def rank(name: str, value: Any) -> Any:
        return kind.rank(value) if name.startswith("out") and value is not None else value

    return Counter(repr([rank(name, value) for name, value in row.items()]) for row in answer.to_pylist())


def compare(name: str, clauses: Iterable[str]) -> None:
    kind = KINDS[name]
    session = declared(kind, "v")
    for clause in clauses:
        plan = session.sql((NESTED | PLAIN)[clause].format(v="v", w="w")).plan
        if pa.types.is_time(kind.type) and any(pa.types.is_time(one.type) for one in plan.output_schema):
            with pytest.raises(
                CatalogError, match=r"column 'out\w*': the type time64\[us\] has no counterpart in Spark"
            ):
                answered(plan, kind)
            continue
        assert ranked(answered(plan, kind), kind) == of_ranks(clause, kind.ranks), clause


@pytest.mark.filterwarnings("ignore:cross_join")
@pytest.mark.parametrize("name", OF_EACH_TYPE)
@pytest.mark.parametrize("one_of", [8, pytest.param(1, marks=pytest.mark.soak)])
def test_a_type_gives_in_a_clause_what_its_ranks_give(name: str, one_of: int) -> None:
    compare(name, clauses_of(name, one_of))
