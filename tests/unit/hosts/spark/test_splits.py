"""Which parts of a batch one task of Spark reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition

from watersmeet.hosts.spark.reading.splits import FEW_ROWS, EndSplit, Part, SourceSplit, Together, in_tasks

ROWS = st.one_of(st.none(), st.integers(1, FEW_ROWS * 2), st.integers(1, 40))


def parts_of(task: InputPartition) -> list[Part]:
    assert isinstance(task, Together | SourceSplit | EndSplit)
    return task.parts if isinstance(task, Together) else [task]


def split(number: int) -> SourceSplit:
    return SourceSplit(str(number), 0, 1, number)


def test_few_rows_of_several_partitions_and_the_end_are_one_task() -> None:
    end = EndSplit("run")
    (task,) = in_tasks([(split(0), 10), (split(1), FEW_ROWS - 10), (end, 0)])
    assert parts_of(task) == [split(0), split(1), end]


def test_one_row_too_many_is_a_task_of_its_own() -> None:
    assert in_tasks([(split(0), 10), (split(1), FEW_ROWS - 9)]) == [split(0), split(1)]


def test_what_nobody_has_counted_is_a_task_of_its_own() -> None:
    end = EndSplit("run")
    assert in_tasks([(split(0), 1), (split(1), None), (end, 0)]) == [split(0), split(1), end]


@given(st.lists(ROWS))
def test_every_part_is_read_once_in_its_order_and_no_task_of_several_has_many_rows(rows: list[int | None]) -> None:
    tasks = in_tasks([(split(number), some) for number, some in enumerate(rows)])
    assert [part for task in tasks for part in parts_of(task)] == [split(number) for number in range(len(rows))]
    for task in tasks:
        held = [rows[part.number] for part in parts_of(task) if isinstance(part, SourceSplit)]
        assert len(held) == 1 or sum(one if one is not None else FEW_ROWS + 1 for one in held) <= FEW_ROWS
