"""The one door to the papers: what a query may ask for by name that is theirs, and where it is made.

Algorithms, rules and operators of the papers are here for comparison. They live in `papers/`, behind a wall: nothing of
the engine imports them; whoever is asked for one finds here where it is, and loads it then.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from watersmeet.dataclass import dataclass


def load(where: str | None) -> Any:
    """What `module:name` names."""
    assert where is not None, "the engine's own join is not loaded from anywhere"
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


# ---- joins: the engine's own is `own`, and `auto` is that one, unless another is quicker ----------------------------

# K05 finds this one best: hardly dearer than the minimum, and few expired rows are held.
DEFAULT_INVALIDATION = "probe_insert"
_LOOPS, _H02 = "watersmeet.papers.joins.loops:LoopJoin", "watersmeet.papers.joins.h02:make"


@dataclass(frozen=True)
class JoinAlgorithm:
    """An algorithm and what it can be told. `made_by` names what makes it of a JoinStrategy, as `module:name`; None for
    the engine's own join. `words` and `forgets` are for people: what it does, and when rows that have expired leave.

    `loops`: follows routes, over windows that can be cleaned and refreshed in several ways (GO03, K05).
    `hashes`: each input has as many buckets as it is given. `tables`: all hash tables have the same number.
    `needs_keys`: every input must be found by an equality. `chains`: two-way joins in one order for all rows.
    `keeps_places`: in an order, new rows stay in their place rather than to come first.
    `merges`: sweeps over windows that may be made equal in several ways.
    `any_order`: finds everything in whatever order rows come, so that nobody has to wait for a silent stream.
    `in_turns`: needs each stream in order, but not all of them in one.
    """

    name: str
    words: str = ""
    made_by: str | None = None
    forgets: str | None = None
    loops: bool = False
    hashes: bool = False
    tables: bool = False
    needs_keys: bool = False
    chains: bool = False
    keeps_places: bool = False
    merges: bool = False
    any_order: bool = False
    in_turns: bool = False
    invalidation: str = DEFAULT_INVALIDATION

    @property
    def is_published(self) -> bool:
        return self.made_by is not None

    @property
    def has_buckets(self) -> bool:
        return self.hashes or self.tables


ALGORITHMS: dict[str, JoinAlgorithm] = {
    one.name: one
    for one in (
        JoinAlgorithm("auto"),
        JoinAlgorithm("own"),
        JoinAlgorithm("nested_loop", "nested loops over whole windows", _LOOPS, loops=True),
        JoinAlgorithm("hash", "loops over one bucket of each window", _LOOPS, loops=True, hashes=True, needs_keys=True),
        JoinAlgorithm(
            "hybrid",
            "loops over a bucket where there is a key, else over the whole window",
            _LOOPS,
            loops=True,
            hashes=True,
        ),
        JoinAlgorithm(
            "merge",
            "streams merged by time: sweep to rows that can meet, then join those",
            _H02,
            "when the sweep has gone past them",
            merges=True,
            in_turns=True,
        ),
        JoinAlgorithm(
            "w_join",
            "one window after the other, the period shrinking with each row",
            _H02,
            "when all other streams have gone past them",
            any_order=True,
        ),
        JoinAlgorithm(
            "nlw",
            "a chain of two-way nested loops that keep what they have joined",
            _H02,
            "when they are met in a scan",
            chains=True,
            keeps_places=True,
            any_order=True,
        ),
        JoinAlgorithm(
            "hw",
            "a chain of two-way hash joins that keep what they have joined",
            _H02,
            "when they are met in a bucket; buckets that are never probed are swept",
            tables=True,
            chains=True,
            keeps_places=True,
            any_order=True,
        ),
        JoinAlgorithm(
            "ripple",
            "nested loops over all that is held, cleaned now and then",
            _H02,
            "every 10,000 arrivals",
            any_order=True,
        ),
        JoinAlgorithm(
            "xjoin",
            "a chain of hash joins, cleaned now and then",
            _H02,
            "every 10,000 arrivals",
            tables=True,
            chains=True,
            keeps_places=True,
            any_order=True,
        ),
        JoinAlgorithm(
            "naive",
            "nested loops in one order, new rows in their place",
            _LOOPS,
            loops=True,
            keeps_places=True,
            # GO03's naive join expires old rows in all other windows before it runs.
            invalidation="all",
        ),
    )
}


def names_of(can: Callable[[JoinAlgorithm], bool]) -> tuple[str, ...]:
    """Those that can do something."""
    return tuple(filter(lambda name: can(ALGORITHMS[name]), ALGORITHMS))


# The operator that any algorithm of the papers runs in.
CLASSIC_JOIN = "watersmeet.papers.joins.classic_join:ClassicJoin"
# What gives it the rows of its streams as they come, or a row of each in turn.
AS_THEY_COME = "watersmeet.papers.joins.as_they_come:AsTheyCome"
STREAM_MANAGER = "watersmeet.papers.joins.as_they_come:StreamManager"
STREAMS_IN_ORDER = "watersmeet.papers.joins.as_they_come:StreamsInOrder"
# What is left to the optimizer of them: buckets and times of expiry, and in which orders loops run.
CHOOSE_SETTINGS = "watersmeet.papers.joins.settings:choose_settings"
LOOP_ORDERS = "watersmeet.papers.orders.best_orders:loop_orders"


# ---- rules of thumb for join orders ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class OrderRule:
    """`found_by` takes what the cost models know of the join and gives one order for all streams, in which a new row
    moves to the front; with `by_price` conditions on combinations and their prices are known too; with `by_origin` it
    is asked for each stream whose new rows are to be ordered; with `of` it is of these inputs, which the option names.
    """

    name: str
    words: str
    found_by: str
    by_origin: bool = False
    by_price: bool = False
    of: tuple[str, ...] = ()


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
        OrderRule(
            "expensive",
            "streams of expensive conditions next to the new row or innermost, whichever costs less",
            f"{_HEURISTICS}expensive_first_or_last",
            by_origin=True,
            by_price=True,
        ),
    )
}
# Written with the inputs that it is of: volatile(b, c).
VOLATILE = OrderRule(
    "volatile",
    "those expected to fluctuate widely outermost, then the smallest join results first",
    f"{_HEURISTICS}volatile_order",
)


# ---- pipelines: how a continuous query notices that rows have expired -----------------------------------------------

OWN_PIPELINES = ("auto", "ita", "tpa", "nta")
PUBLISHED_PIPELINES = ("ita_scan", "tpa_scan", "nta_scan")  # H04's operators as printed
# Who runs next: whoever is asked for tuples, everyone in turn, or who frees most of what waits between operators.
SCHEDULES = ("pull", "round_robin", "memory")
# What refuses a plan that the paper does not have, makes the operators of one that it has, and tells its cases.
CHECK_PUBLISHED = "watersmeet.papers.pipelines.check:check_published"
PUBLISHED_OPERATORS = "watersmeet.papers.pipelines.make:Published"
EXPIRY_CASES = "watersmeet.papers.pipelines.expiry_cases:expiry_cases"
