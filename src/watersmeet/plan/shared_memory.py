"""Which queries of a script share the memory that it sets, and what each has of it to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from watersmeet.errors import OptionError
from watersmeet.plan.memory import Memory
from watersmeet.plan.nodes import Node
from watersmeet.plan.options import Options
from watersmeet.plan.query import Plan, method_of
from watersmeet.plan.shapes import plain_join

FLOOR = 1 / 32  # of an equal part: so much each has at least, so that what it would find with more shows


def with_memory(root: Node, options: Options, memory: Memory | None) -> Options:
    """The options of a query whose script sets memory: it shares that if it can forget rows, and says nothing else. How
    much it has of it is known when all queries are (`in_parts`)."""
    streams = streams_that_share(root, options)
    if memory is None or not streams:
        if options.has("priority") and options.memory is not None:
            raise options.wrong(
                "priority",
                "says how much of the memory of a script a query gets, and this one has memory of its own",
                "leave priority out; or write SET memory = '64 MB' in the script, and leave memory out",
            )
        return options
    return options.but(memory=memory.part(max(memory.amount, streams)))


def streams_that_share(root: Node, options: Options) -> int:
    """How many streams the join of a query has that may forget rows; 0 if it is none."""
    plain = plain_join(root)
    if plain is None or len(plain.join.streams) < 2 or method_of(root, options).is_classic:
        return 0
    may = "memory" not in options.written and options.shed != "none" and options.when_full == "shed"
    return len(plain.join.streams) if may else 0


def shares_memory(plan: Plan) -> bool:
    return plan.options.memory is not None and plan.options.memory.whole is not None


def in_parts(plans: Mapping[str, Plan], memory: Memory) -> dict[str, Plan]:
    """The plans of those who share a memory, each with its part by its priority."""
    floor = int(FLOOR * memory.amount / len(plans))
    least = [_streams(plan) for plan in plans.values()]
    if sum(least) > memory.amount:
        raise OptionError(
            f"{memory.text} is less than a row of each stream of each of {len(least)} joins, which are {sum(least)}",
            hint=f"write SET memory = '{sum(least)} rows' or more",
            option="memory",
        )
    floored = [max(one, floor) for one in least]
    priorities = [plan.options.priority for plan in plans.values()]
    amounts = by_weight(memory.amount, least if sum(floored) > memory.amount else floored, priorities)
    return {
        name: replace(plan, options=plan.options.but(memory=memory.part(amount)))
        for (name, plan), amount in zip(plans.items(), amounts, strict=True)
    }


def in_parts_of_all(plans: Mapping[str, Plan]) -> dict[str, Plan]:
    """The plans of queries that run side by side: who shares memory has a part of all of it."""
    members = {name: plan for name, plan in plans.items() if shares_memory(plan)}
    memory = next((plan.options.memory.whole for plan in members.values() if plan.options.memory is not None), None)
    return {**plans, **({} if memory is None else in_parts(members, memory))}


def by_weight(total: int, least: Sequence[int], weights: Sequence[float]) -> list[int]:
    """Whole numbers that add up to a total, each at least so large (which is no more in all), the rest by weight.

    >>> by_weight(100, [2, 2, 3], [1, 1, 2])
    [25, 25, 50]
    >>> by_weight(10, [2, 2, 3], [1, 1, 100])
    [2, 2, 6]
    """
    open_, left = set(range(len(least))), float(total)
    while True:
        weight = sum(weights[one] for one in open_)
        short = [one for one in sorted(open_) if left * weights[one] < least[one] * weight]
        if not short:
            break
        open_ -= set(short)
        left -= sum(least[one] for one in short)
    exact = [left * weights[one] / weight if one in open_ else float(least[one]) for one in range(len(least))]
    amounts = [int(one) for one in exact]
    most_cut = sorted(range(len(least)), key=lambda one: (amounts[one] - exact[one], one))
    for one in most_cut[: total - sum(amounts)]:
        amounts[one] += 1
    return amounts


def _streams(plan: Plan) -> int:
    join = plan.plain_join
    assert join is not None
    return len(join.join.streams)
