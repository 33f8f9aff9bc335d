"""What the report says, piece by piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from watersmeet.lab.cards import CARDS, Card
from watersmeet.lab.experiment import Check, Panel
from watersmeet.lab.report.blocks import Block, Bullets, Heading, Image, TableBlock, TextBlock
from watersmeet.lab.report.gather import Entry, JudgedRun
from watersmeet.lab.report.plots import plot_name

MOST_ROWS = 16


def page(entries: Sequence[Entry], plots: Mapping[str, str], folder: str) -> list[Block]:
    """All blocks of the report, in order."""
    blocks = [*_opening(entries)]
    for paper in dict.fromkeys(entry.experiment.paper for entry in entries):
        ours = [entry for entry in entries if entry.experiment.paper == paper]
        blocks.extend(_card(paper, CARDS.get(paper), ours))
        for entry in ours:
            blocks.extend(_entry(entry, folder))
    return blocks


def _opening(entries: Sequence[Entry]) -> Iterator[Block]:
    counts = Counter(entry.verdict for entry in entries)
    yield Heading(1, "Reproduction", "reproduction")
    yield TextBlock(
        "What the experiments of five papers give on this engine. `watersmeet lab report` writes this page from the "
        "numbers in `results/`, and every verdict follows from checks of these numbers, which stand beside the "
        "experiments in `src/watersmeet/lab/papers/`. **Reproduced** means that every check holds; **reproduced with "
        "a difference** that those hold that carry the paper's claim, and a reason is given for what differs."
    )
    yield Heading(2, "Summary", "summary")
    yield TextBlock(
        f"{len(entries)} experiments: " + ", ".join(f"{count} {what}" for what, count in counts.items()) + "."
    )
    rows = tuple(
        (
            f"[{entry.experiment.id}](#{entry.experiment.id})",
            entry.experiment.shows,
            entry.experiment.claim.rstrip("."),
            entry.verdict,
            entry.runs[0].record.scale if entry.runs else "",
        )
        for entry in entries
    )
    yield TableBlock(("experiment", "shows", "the paper says", "verdict", "scale"), rows)


def _card(paper: str, card: Card | None, entries: Sequence[Entry]) -> Iterator[Block]:
    if card is None:
        yield Heading(2, paper, paper)
        return
    yield Heading(2, f"{paper}: {card.title}", paper)
    yield TextBlock(f"{card.authors}, {card.where}.")
    verdicts = ", ".join(f"{entry.experiment.id} {entry.verdict}" for entry in entries)
    yield TableBlock(
        ("", ""),
        (
            ("idea", card.idea),
            ("assumes", card.assumes),
            ("cost", card.cost),
            ("our files", ", ".join(f"`{file}`" for file in card.files)),
            ("verdicts", verdicts),
        ),
    )


def _entry(entry: Entry, folder: str) -> Iterator[Block]:
    one = entry.experiment
    yield Heading(3, f"{one.id}: {one.shows}", one.id)
    yield TextBlock(_sentence(f"The paper says: {one.claim}"))
    if not entry.runs:
        yield TextBlock("This was not run.")
        return
    shown, *others = entry.runs
    yield TextBlock(f"**{shown.judgement.verdict.capitalize()}**, at the {_circumstances(shown)}.")
    for number, panel in enumerate(shown.record.result.panels):
        if not panel.table_only:
            name = plot_name(one.id, number)
            yield Image(name, f"{folder}/{name}.svg", f"{one.id}: {panel.title}")
        yield _measured(panel)
        if panel.low:
            yield TextBlock(_sentence(f"In brackets, and as bars in the plot: {panel.spread}"))
    if shown.record.result.numbers:
        yield _numbers([shown])
    yield Bullets(tuple(_check(check, held=check in shown.judgement.held) for check in one.checks))
    if others:
        yield TextBlock("Other runs:")
        yield _other_runs(others)
        if any(run.record.result.numbers for run in others):
            yield _numbers(others)


def _circumstances(run: JudgedRun) -> str:
    record = run.record
    machine = f"{record.machine.get('cores')} cores, {record.machine.get('arch')}"
    commit = f", commit {record.commit[:10]}{'+' if record.commit.endswith('+') else ''}" if record.commit else ""
    settings = ", ".join(f"{name} {_setting(value)}" for name, value in record.settings.items())
    return f"{record.scale} scale with seed {record.seed} ({settings}; {record.seconds:.1f} s on {machine}{commit})"


def _setting(value: object) -> str:
    if isinstance(value, list | tuple):
        return "(" + ", ".join(_setting(one) for one in value) + ")"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else str(value)


def _measured(panel: Panel) -> TableBlock:
    """The numbers of a plot; of many points some, spread evenly."""
    size = len(panel.x)
    shown = (
        range(size)
        if size <= MOST_ROWS
        else sorted({round(k * (size - 1) / (MOST_ROWS - 1)) for k in range(MOST_ROWS)})
    )
    rows = tuple((_setting(panel.x[k]), *(_point(panel, name, k) for name in panel.lines)) for k in shown)
    return TableBlock((panel.x_label, *panel.lines), rows, numbers=True)


def _point(panel: Panel, name: str, place: int) -> str:
    value = _value(panel.lines[name][place])
    if name not in panel.low or not value:
        return value
    return f"{value} ({_value(panel.low[name][place])} to {_value(panel.high[name][place])})"


def _numbers(runs: Sequence[JudgedRun]) -> TableBlock:
    """Single numbers, with a column for each run."""
    names = dict.fromkeys(name for run in runs for name in run.record.result.numbers)
    header = ("measured",) if len(runs) == 1 else tuple(f"{run.record.scale}, seed {run.record.seed}" for run in runs)
    rows = tuple((name, *(_value(run.record.result.numbers.get(name)) for run in runs)) for name in names)
    return TableBlock(("", *header), rows, numbers=True)


def _other_runs(runs: Sequence[JudgedRun]) -> TableBlock:
    rows = tuple(
        (
            f"{run.record.scale}, seed {run.record.seed}",
            run.judgement.verdict,
            f"{run.record.seconds:.1f}",
            "; ".join(check.says.rstrip(".") for check in run.judgement.failed) or "none",
        )
        for run in runs
    )
    return TableBlock(("run", "verdict", "seconds", "failed checks"), rows)


def _check(check: Check, *, held: bool) -> str:
    outcome = "held" if held else "failed"
    timed = " (wall time)" if check.timed else ""
    reason = f" Why: {check.why}" if check.why and not held else ""
    return _sentence(_sentence(f"**{outcome}**: {check.says.rstrip('.')}{timed}") + reason)


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."


def _value(value: float | None) -> str:
    return "" if value is None else number(value)


def number(value: float) -> str:
    """A number with the digits that matter.

    >>> number(1234567), number(0.123456), number(12.3456), number(3.0), number(123456.7), number(0.00001234)
    ('1,234,567', '0.1235', '12.35', '3', '123,457', '1.234e-05')
    """
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
