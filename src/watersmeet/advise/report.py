"""What was found about memory and recall, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, field
from pathlib import Path
from textwrap import fill
from typing import Any

from watersmeet.advise.skew import Skew
from watersmeet.dataclass import dataclass
from watersmeet.errors import SetupError
from watersmeet.model.wording import aligned, in_bytes, short

GOALS = (0.9, 0.99)


@dataclass(frozen=True)
class Trial:
    """One run over the sample: which rows were kept, in how much memory, and what was found."""

    policy: str
    allocation: str
    rows: int
    results: int
    recall: float


@dataclass(frozen=True)
class Ceiling:
    """The most that any choice of rows finds in a memory, knowing all that is to come."""

    allocation: str
    rows: int
    recall: float


@dataclass(frozen=True)
class Need:
    """The least memory that was seen to reach a recall, between two sizes by a straight line."""

    recall: float
    rows: int
    policy: str
    allocation: str


@dataclass(frozen=True)
class Advice:
    """`rows_needed` is the most that the windows held at a time, `row_bytes` what one row takes, `bound` the memory
    that the query asks for, in rows; `notes` say what to keep in mind; `skew` is how evenly keys fill buckets or
    threads, None where they are not placed by one."""

    sample_rows: int
    event_seconds: float
    seconds: float
    exact_results: int
    rows_needed: int
    row_bytes: float
    trials: tuple[Trial, ...]
    ceilings: tuple[Ceiling, ...] = ()
    bound: int | None = None
    notes: tuple[str, ...] = field(default=())
    skew: Skew | None = None

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies that were tried, in order."""
        return tuple(dict.fromkeys(trial.policy for trial in self.trials))

    @property
    def allocations(self) -> tuple[str, ...]:
        """The allocations that were tried, in order."""
        return tuple(dict.fromkeys(trial.allocation for trial in self.trials))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of memory that were tried, in rows."""
        return tuple(sorted({trial.rows for trial in self.trials}))

    def recall(self, policy: str, allocation: str, rows: int) -> float | None:
        """What a policy found in so many rows, if that was tried; the policy `optimum` is the ceiling."""
        known: Sequence[Trial | Ceiling] = self.ceilings if policy == "optimum" else self.trials
        for one in known:
            wanted = policy == "optimum" or (isinstance(one, Trial) and one.policy == policy)
            if wanted and (one.allocation, one.rows) == (allocation, rows):
                return one.recall
        return None

    def needs(self, recall: float) -> Need | None:
        """The least memory for a recall, and how to use it; None if no size that was tried is enough."""
        found = [
            Need(recall, rows, policy, allocation)
            for policy in self.policies
            for allocation in self.allocations
            if (rows := self._rows_for(recall, policy, allocation)) is not None
        ]
        return min(found, key=lambda one: one.rows, default=None)

    def _rows_for(self, recall: float, policy: str, allocation: str) -> int | None:
        below, found = 0, 0.0  # no memory finds nothing: the line begins there
        for rows in self.sizes:
            now = self.recall(policy, allocation, rows)
            if now is None:
                continue
            if now >= recall:
                share = 1.0 if now == found else (recall - found) / (now - found)
                return max(1, round(below + share * (rows - below)))
            below, found = rows, now
        return None

    def __str__(self) -> str:
        return advice_text(self)

    def plot(self, path: str | Path) -> None:
        """Draw recall by memory into a file, SVG, PNG or PDF by its name; needs matplotlib."""
        check_plot(Path(path))
        draw_advice(self, Path(path))

    def as_dict(self) -> dict[str, Any]:
        """Names that stay: programs read them."""
        needs = [need for goal in GOALS if (need := self.needs(goal)) is not None]
        return {
            "sample_rows": self.sample_rows,
            "event_seconds": self.event_seconds,
            "seconds": self.seconds,
            "exact_results": self.exact_results,
            "rows_needed": self.rows_needed,
            "bytes_needed": self.rows_needed * self.row_bytes,
            "row_bytes": self.row_bytes,
            "bound_rows": self.bound,
            "trials": [asdict(trial) for trial in self.trials],
            "optimum": [asdict(ceiling) for ceiling in self.ceilings],
            "needs": [asdict(need) for need in needs],
            "notes": list(self.notes),
            "skew": None if self.skew is None else self.skew.as_dict(),
        }


# ---- as text -------------------------------------------------------------------------------------------------------

WIDTH = 80
GOAL = 0.9


def advice_text(advice: Advice) -> str:
    return "\n".join(_lines(advice)) + "\n"


def _lines(advice: Advice) -> Iterator[str]:
    size = in_bytes(advice.rows_needed * advice.row_bytes)
    yield _folded(
        f"over {advice.sample_rows:,} rows, {short(advice.event_seconds)} s of event time, the windows need up to "
        f"{advice.rows_needed:,} rows, about {size}; the exact answer has {advice.exact_results:,} results"
    )
    for allocation in advice.allocations:
        yield f"recall with allocation = '{allocation}'"
        yield from (f"  {line}" for line in aligned(_table(advice, allocation), left=0))
    yield from (_folded(f"note: {note}") for note in advice.notes)
    uneven = None if advice.skew is None else advice.skew.sentence()
    yield from () if uneven is None else (_folded(uneven),)
    yield f"worked out in {short(advice.seconds)} s"
    yield _folded(recommendation(advice))


def _table(advice: Advice, allocation: str) -> list[list[str]]:
    ways = [*advice.policies, *(["optimum"] if any(c.allocation == allocation for c in advice.ceilings) else [])]
    rows = [["rows", "bytes", "of need", *ways]]
    for size in advice.sizes:
        recalls = [_percent(advice.recall(way, allocation, size)) for way in ways]
        asked = "*" if size == advice.bound else ""
        share = f"{100 * size / advice.rows_needed:.0f}%"
        rows.append([f"{asked}{size:,}", in_bytes(size * advice.row_bytes), share, *recalls])
    return rows


def recommendation(advice: Advice) -> str:
    """What to write, in a line.

    >>> from watersmeet.advise.report import Trial
    >>> trials = (Trial("prob", "fixed", 100, 80, 0.8), Trial("prob", "fixed", 200, 100, 1.0))
    >>> recommendation(Advice(1000, 60.0, 1.0, 100, 200, 40.0, trials))
    "90% recall needs about 150 rows (6 kB) with shed = 'prob', allocation = 'fixed'"
    """
    if not advice.exact_results:
        return "the sample has no results, so nothing can be told; take a larger one"
    need = advice.needs(GOAL)
    largest = max(advice.sizes, default=0)
    if need is None and largest < advice.rows_needed:
        sentence = f"{GOAL:.0%} recall needs more than {largest:,} rows, the most that there was time to try"
    elif need is None:
        sentence = f"{GOAL:.0%} recall needs all {advice.rows_needed:,} rows and more"
    else:
        sentence = (
            f"{GOAL:.0%} recall needs about {short(need.rows)} rows ({in_bytes(need.rows * advice.row_bytes)}) "
            f"with shed = '{need.policy}', allocation = '{need.allocation}'"
        )
    return sentence + _of_bound(advice)


def _of_bound(advice: Advice) -> str:
    """What the memory that the query asks for is good for."""
    if advice.bound is None:
        return ""
    if advice.bound >= advice.rows_needed:
        return f"; the query's bound, {advice.bound:,} rows, holds all that the windows need"
    found = [trial for trial in advice.trials if trial.rows == advice.bound]
    best = max(found, key=lambda trial: trial.recall, default=None)
    if best is None:
        return ""
    return (
        f"; * the query's bound, {advice.bound:,} rows, gives {best.recall:.1%} at best, "
        f"with shed = '{best.policy}', allocation = '{best.allocation}'"
    )


def _percent(recall: float | None) -> str:
    return "-" if recall is None else f"{100 * recall:.1f}%"


def _folded(text: str) -> str:
    return fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


# ---- as a picture ---------------------------------------------------------------------------------------------------

# Okabe and Ito's colours, which most people can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999933")
MARKERS = "osD^vPX"
FORMATS = (".svg", ".png", ".pdf")


def check_plot(path: Path) -> None:
    """Whether a plot could be written there: asked before the work is done."""
    if path.suffix.lower() not in FORMATS:
        raise SetupError(
            f"a plot cannot be written to {path}", hint=f"give it a name that ends in {', '.join(FORMATS)}"
        )
    if not path.resolve().parent.is_dir():
        raise SetupError(f"there is no folder {path.resolve().parent} to write the plot to")
    # Whether it is installed should be known before the work is done as well.
    _matplotlib()


def draw_advice(advice: Advice, path: Path) -> None:
    """Write the plot; its format follows from the file's name."""
    pyplot = _matplotlib()
    style = {"svg.fonttype": "none", "svg.hashsalt": "watersmeet", "font.size": 10, "axes.axisbelow": True}
    with pyplot.rc_context(style):
        figure, panels = pyplot.subplots(
            1, len(advice.allocations), sharey=True, squeeze=False, figsize=(8.4, 3.6), layout="constrained"
        )
        try:
            for axes, allocation in zip(panels[0], advice.allocations, strict=True):
                _panel(axes, advice, allocation)
            panels[0][0].set_ylabel("recall")
            panels[0][-1].legend(frameon=False, loc="lower right")
            figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        finally:
            pyplot.close(figure)


def _panel(axes: Any, advice: Advice, allocation: str) -> None:
    for policy, colour, marker in zip(advice.policies, COLOURS, MARKERS, strict=False):
        axes.plot(*_curve(advice, policy, allocation), color=colour, marker=marker, markersize=4, label=policy)
    if any(one.allocation == allocation for one in advice.ceilings):
        axes.plot(*_curve(advice, "optimum", allocation), color="black", linestyle="--", label="optimum")
    if advice.bound is not None and advice.bound < advice.rows_needed:
        axes.axvline(advice.bound, color="#999999", linewidth=1)
    axes.set(title=f"{allocation} allocation", xlabel="rows in memory", xlim=(0, None), ylim=(0, 1.02))
    axes.grid(color="#dddddd", linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _curve(advice: Advice, policy: str, allocation: str) -> tuple[list[int], list[float]]:
    known = [(size, advice.recall(policy, allocation, size)) for size in advice.sizes]
    points = [(size, recall) for size, recall in known if recall is not None]
    return [size for size, _ in points], [recall for _, recall in points]


def _matplotlib() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        raise SetupError("plots need matplotlib, which is not installed", hint="pip install matplotlib") from None
    pyplot.switch_backend("Agg")
    return pyplot
