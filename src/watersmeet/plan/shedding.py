"""How much memory a join may use and what it forgets when that is not enough: the options that say so, parsed."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Table
from watersmeet.plan.memory import Memory
from watersmeet.plan.options import Options, names_for

DEFAULT_POLICY = "prob"
BY_FREQUENCY = ("prob", "life")  # of keys, and of nothing else that is learnt
_WITHOUT_MEMORY = {
    "archive": "is for what is forgotten",
    "frequencies": "says which keys are worth memory",
    "max_lag": "sheds rows of a join in bounded memory",
    "priority": "says how much of the memory of a script a query gets",
    "when_full": "says what to do when memory is full",
}
_SET_MEMORY = "write SET memory = '64 MB' in the script, or leave priority out"


@dataclass(frozen=True)
class Shedding:
    """What OPTIONS say about forgetting rows early. `recall` is how the losses are counted: `exact` keeps the time and
    the keys of every row until it would have expired, `panes` counts keys by period, `none` keeps nothing. With
    `max_lag_us` rows are also shed before they are joined, when processing is so far behind; `queue` says by whose
    knowledge: the join's (`integrated`) or the queue's own (`modular`). `archive` is
    where what completion needs is written. `frequencies`: the tables that say how often the keys of each stream come,
    where they are not counted."""

    memory: Memory
    policy: str = DEFAULT_POLICY
    allocation: str = "fixed"
    seed: int = 1
    recall: str = "exact"
    archive: str | None = None
    max_lag_us: int | None = None
    queue: str = "integrated"
    frequencies: tuple[tuple[str, Table], ...] = ()

    @classmethod
    def of(cls, options: Options, streams: Sequence[str]) -> Shedding | None:
        """What to shed in a join of these streams, or None; raises OptionError naming the option at fault."""
        given = [name for name in names_for("forgetting") if options.has(name)]
        memory = options.memory
        if memory is None:
            for name in given:
                # shed = 'none' without a bound says only what is so anyway.
                if (name, options.shed) != ("shed", "none"):
                    hint = _SET_MEMORY if name == "priority" else "add memory = '100000 rows'"
                    does = _WITHOUT_MEMORY.get(name, "says what to forget")
                    raise options.wrong(name, f"{does}, but there is no bound on memory", hint)
            return None
        if options.when_full == "spill":
            return None  # nothing is forgotten (see plan/spilling)
        if options.shed == "none":
            raise options.wrong(
                "memory",
                "bounds the memory, but shed = 'none' forbids to forget",
                "write shed = 'prob', or when_full = 'spill'",
            )
        # An order is all right: it changes no row that is kept.
        for name in names_for("joining"):
            if name != "order" and options.has(name):
                raise options.wrong(
                    name,
                    "runs an algorithm as published, which keeps every row of its windows; memory bounds the engine's "
                    "own join only",
                    f"leave {name} out, or memory",
                )
        if len(streams) < 2:
            raise options.wrong(
                "memory", "bounds the windows of a join of streams, and here there is none", "leave memory out"
            )
        least = len(streams)
        # Bytes too: fewer than streams cannot hold a row of each, and what a row takes is not known yet.
        if (memory.rows if memory.rows is not None else memory.size or 0) < least:
            raise options.wrong(
                "memory",
                f"is less than one row for each of {least} streams",
                f"write memory = '{least} rows' or more",
            )
        if options.has("queue") and not options.has("max_lag"):
            raise options.wrong(
                "queue",
                "says by what rows are shed when processing is behind, but there is no bound on that",
                "add max_lag = '5 seconds'",
            )
        if options.has("max_lag") and options.has("archive"):
            raise options.wrong(
                "archive",
                "needs every row to be joined when it comes, but with max_lag some never are",
                "leave archive out, or max_lag",
            )
        policy = DEFAULT_POLICY if options.shed == "auto" else options.shed
        if policy == "arm" and options.recall != "exact":
            raise options.wrong(
                "recall",
                "keeps no records of rows that are gone, by which shed = 'arm' knows incomplete rows",
                "write recall = 'exact', or another policy",
            )
        if options.frequencies is not None:
            _check_frequencies(options, policy)
        return cls(
            memory,
            policy,
            options.allocation,
            options.shed_seed,
            options.recall,
            options.archive,
            options.max_lag_us,
            options.queue,
        )

    @classmethod
    def of_no_join(cls, options: Options, why: str) -> None:
        """For an answer that is no plain join: a row forgotten early would make it wrong, not only smaller."""
        for name in names_for("forgetting"):
            if options.has(name) and options.when_full == "spill":
                raise options.wrong(
                    "when_full", "is for plain joins of streams, and this query asks for more", "leave memory out"
                )
            if options.has(name) and (name, options.shed) != ("shed", "none"):
                raise options.wrong(
                    name,
                    f"cannot be used here: {why}",
                    "shed rows only in a plain join: SELECT … FROM … WHERE",
                )


def _check_frequencies(options: Options, policy: str) -> None:
    if policy not in BY_FREQUENCY:
        raise options.wrong(
            "frequencies",
            f"says how often keys come, and shed = {policy!r} goes by more than that",
            "write shed = 'prob' or 'life', or leave frequencies out",
        )
    if options.has("max_lag"):
        raise options.wrong(
            "frequencies",
            "says which rows in memory are worth it; before the join rows are shed by keys that are counted",
            "leave out max_lag, or frequencies",
        )
