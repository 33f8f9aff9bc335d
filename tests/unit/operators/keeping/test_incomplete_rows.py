"""Rows that did not meet all their partners (DGR03's ArM): counted exactly, and fewest with the policy made for it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.effort import thinned
from tests.unit.operators.keeping.test_shedding_join import (
    FORMS,
    MEMORY,
    drive,
    operator_of,
    random_tables,
    run,
    steps,
    table,
    two_way,
)
from tests.unit.shedding_strategies import zipf
from watersmeet.errors import OptionError


def ids(form: str, options: str = "") -> str:
    selected = ", ".join(f"{alias}.id" for alias in "abcd"[: int(form[0])])
    return f"SELECT {selected} {FORMS[form]} {options}"


@pytest.mark.parametrize(("form", "policy"), thinned(FORMS, ["rand", "prob", "arm"]))
def test_members_of_lost_results_are_the_incomplete_rows(form, policy):
    tables = random_tables(int(form[0]))
    exact, told = run(tables, ids(form))
    assert told["incomplete_rows"] == 0
    for allocation, batch in (("fixed", 7), ("variable", None)):
        options = f"OPTIONS (memory = '{MEMORY[form]} rows', shed = '{policy}', allocation = '{allocation}')"
        found, told = run(tables, ids(form, options), batch)
        missing = exact - found
        assert found <= exact
        assert told["incomplete_rows"] == len({member for row in missing for member in enumerate(row)}) > 0


def test_without_records_they_are_not_known():
    for options in ("recall = 'none'", "shed = 'rand', recall = 'none'"):
        _, told = run(random_tables(2), two_way(30, f"memory = '20 rows', {options}"))
        assert told["incomplete_rows"] is None


def incomplete(policy: str, allocation: str, keys: list[np.ndarray], memory: int) -> int:
    session = wm.Session()
    for name, drawn in zip("ab", keys, strict=True):
        session.stream(name, table(drawn), time="ts")
    query = session.sql(
        two_way(199, f"memory = '{memory} rows', shed = '{policy}', allocation = '{allocation}'", "a.id")
    )
    assert sum(batch.num_rows for batch in query.batches())
    return int(query.metrics()["incomplete_rows"])


def zipf_keys(seed: int, *, correlated: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    first = zipf(rng, 1200)
    return [first, rng.permutation(first) if correlated else zipf(rng, 1200)]


@pytest.mark.lab
@pytest.mark.parametrize("allocation", ["fixed", "variable"])
@pytest.mark.parametrize("correlated", [True, False])
def test_arm_leaves_fewer_rows_incomplete_than_prob_and_rand(correlated, allocation):
    """Zipf(1), with half of what the windows need, over two draws."""
    draws = [zipf_keys(seed, correlated=correlated) for seed in (21, 22)]
    left = {
        policy: sum(incomplete(policy, allocation, keys, 200) for keys in draws) for policy in ("rand", "prob", "arm")
    }
    assert left["arm"] < left["prob"] < left["rand"]


def test_arm_stays_within_its_memory():
    for allocation in ("fixed", "variable"):
        operator = operator_of(two_way(200, f"memory = '32 rows', shed = 'arm', allocation = '{allocation}'"), 2)
        joining = operator.bounded
        kept: list[int] = []
        drive(operator, steps(random_tables(2), 50), lambda join=joining, seen=kept: seen.append(join.kept_rows))
        assert 30 <= max(kept) <= 32


def test_arm_needs_records():
    with pytest.raises(OptionError, match="keeps no records"):
        operator_of(two_way(10, "memory = '20 rows', shed = 'arm', recall = 'none'"), 2)


def test_arm_without_keys_is_still_right():
    tables = [pa.table(one) for one in random_tables(2)]
    sql = "SELECT a.id, b.id FROM a [RANGE 9 SECONDS], b [RANGE 9 SECONDS]"
    exact, _ = run(tables, sql)
    found, told = run(tables, f"{sql} OPTIONS (memory = '10 rows', shed = 'arm')")
    assert found < exact
    assert told["exact_results"] == exact.total()
