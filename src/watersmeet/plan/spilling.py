"""How much of its windows a join may hold in memory, where the rest goes to disk: the options that say so, parsed."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.dataclass import dataclass
from watersmeet.plan.options import Options, names_for


@dataclass(frozen=True)
class Spilling:
    """What OPTIONS say about windows larger than memory: no more than `size` bytes lie in memory. `written` is how that
    was given."""

    size: int
    written: str = ""

    @classmethod
    def of(cls, options: Options, streams: Sequence[str]) -> Spilling | None:
        """For a join of these streams, or None; raises OptionError naming the option at fault."""
        memory = options.memory
        if options.when_full != "spill" or memory is None:
            return None
        if memory.size is None:
            raise options.wrong(
                "memory",
                "counts rows, but with when_full = 'spill' no row is given up: keys and times of all stay in memory",
                "write a number of bytes: memory = '64 MB'",
            )
        for name in names_for("forgetting"):
            if name not in ("memory", "when_full") and options.has(name) and (name, options.shed) != ("shed", "none"):
                raise options.wrong(
                    name, "is about rows that are given up, and when_full = 'spill' gives up none", f"leave {name} out"
                )
        for name in names_for("joining"):
            if name != "order" and options.has(name):
                raise options.wrong(
                    name,
                    "runs an algorithm as published, with its rows in memory; when_full = 'spill' is for the engine's "
                    "own join",
                    f"leave {name} out, or memory",
                )
        if len(streams) < 2:
            raise options.wrong(
                "memory", "bounds the windows of a join of streams, and here there is none", "leave memory out"
            )
        return cls(memory.size, memory.written)
