"""The rules of thumb for join orders that a query may ask for by name. Nothing of the engine imports them: they stand
with the papers, and are loaded when a query asks for one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OrderRule:
    """`found_by` takes what the cost models know of the join and gives one order for all streams, in which a new row
    moves to the front; with `by_origin` it is asked for each stream whose new rows are to be ordered."""

    name: str
    words: str
    found_by: str
    by_origin: bool = False


_HEURISTICS = "watersmeet.papers.orders.heuristics:"
ORDER_RULES: dict[str, OrderRule] = {
    one.name: one
    for one in (
        OrderRule("size", "the smallest window or bucket first", f"{_HEURISTICS}size_order"),
        OrderRule("selectivity", "the smallest join results first", f"{_HEURISTICS}selectivity_order"),
        OrderRule(
            "augmented", "the smallest join results first, fast streams moved outward", f"{_HEURISTICS}augmented_order"
        ),
        OrderRule("hybrid", "windows with an index innermost", f"{_HEURISTICS}hybrid_order"),
        OrderRule(
            "greedy",
            "each time the most selective join that the conditions allow",
            f"{_HEURISTICS}greedy_local_order",
            by_origin=True,
        ),
    )
}
