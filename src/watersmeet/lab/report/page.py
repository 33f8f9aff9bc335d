"""What the report says of each paper and each experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from watersmeet.lab import store
from watersmeet.lab.cards import CARDS, Card
from watersmeet.lab.circumstances import THE_PAPER, circumstances, origin, times, title
from watersmeet.lab.experiment import Check, Experiment, Panel
from watersmeet.lab.groups import in_words, is_figure
from watersmeet.lab.report.blocks import Block, Bullets, Folded, Heading, Image, TableBlock, TextBlock
from watersmeet.lab.report.gather import Entry, JudgedRun
from watersmeet.lab.report.opening import opening
from watersmeet.lab.report.plots import panel_title, plot_name

MOST_ROWS = 16


def page(entries: Sequence[Entry], plots: Mapping[str, str], folder: str, conditions: str = "") -> list[Block]:
    """All blocks of the report, in order. conditions: what else the machine did while these runs were measured."""
    blocks = [*opening(entries, plots, folder, conditions)]
    for paper in dict.fromkeys(entry.experiment.paper for entry in entries):
        ours = [entry for entry in entries if entry.experiment.paper == paper]
        blocks.extend(_card(paper, CARDS.get(paper)))
        for entry in ours:
            blocks.extend(_entry(entry, folder))
    return blocks


def _card(paper: str, card: Card | None) -> Iterator[Block]:
    if card is None:
        yield Heading(2, paper, paper)
        return
    yield Heading(2, f"{paper}: {card.title}", paper)
    yield TextBlock(f"{card.authors}, {card.where}.")
    about = (
        ("idea", card.idea),
        ("assumes", card.assumes),
        ("cost", card.cost),
        ("our files", ", ".join(f"`{file}`" for file in card.files)),
    )
    yield Folded("The paper in short", (TableBlock(("", ""), about),))


def _entry(entry: Entry, folder: str) -> Iterator[Block]:
    one = entry.experiment
    yield Heading(3, f"{one.id}: {title(one)}", one.id)
    said = f"The paper: “{one.claim}”" if is_figure(one) else f"Asked: {one.claim}"
    yield TextBlock(_sentence(said))
    if not entry.runs:
        yield TextBlock("This is to be measured again." if entry.unread else "This was not run.")
        return
    shown, *others = entry.runs
    found = f" {_sentence(one.found(shown.record.result))}" if one.found else ""
    stale = " It ran through older code, or with other settings." if shown.stale else ""
    verdict = entry.verdict[0].upper() + entry.verdict[1:]
    yield TextBlock(f"**{verdict}**, at the {_circumstances(shown)}.{found}{stale}")
    for record in entry.unread:
        yield TextBlock(
            f"The run at the {record.scale} scale with seed {record.seed} is of an earlier version of this experiment, "
            "whose numbers its checks cannot read: it is to be measured again."
        )
    yield Folded("Plots and checks", tuple(_evidence(entry, shown, folder)))
    yield Folded("Data, settings and numbers", tuple(_background(entry, shown, others)))


def _evidence(entry: Entry, shown: JudgedRun, folder: str) -> Iterator[Block]:
    one = entry.experiment
    for number, panel in enumerate(shown.record.result.panels):
        yield TextBlock(f"**{panel_title(panel)}**")
        if not panel.table_only:
            name = plot_name(one.id, number)
            yield Image(name, f"{folder}/{name}.svg", f"{one.id}: {panel_title(panel)}")
    yield Bullets(tuple(_check(check, held=check in shown.judgement.held) for check in one.checks))


def _background(entry: Entry, shown: JudgedRun, others: Sequence[JudgedRun]) -> Iterator[Block]:
    around = circumstances(entry.experiment)
    if around.note:
        yield TextBlock(_sentence(around.note))
    yield TextBlock(_sentence(f"Data: {around.data}"))
    if times(entry.experiment):
        yield TextBlock(_sentence(f"Times: {times(entry.experiment)}"))
    yield from _settings(entry, shown, around.reconstructed)
    for panel in shown.record.result.panels:
        yield TextBlock(f"**{panel_title(panel)}**")
        yield _measured(panel)
        if panel.low:
            yield TextBlock(_sentence(f"In brackets, and as bars in the plot: {panel.spread}"))
    if shown.record.result.numbers:
        yield _numbers([shown])
    if others:
        yield TextBlock("Other runs:")
        yield _other_runs(entry.experiment, others)
        if any(run.record.result.numbers for run in others):
            yield _numbers(others)


def _circumstances(run: JudgedRun) -> str:
    record = run.record
    machine = f"{record.machine.get('cores')} cores, {record.machine.get('arch')}"
    commit = f", commit {record.commit[:10]}{'+' if record.commit.endswith('+') else ''}" if record.commit else ""
    return f"{record.scale} scale with seed {record.seed} ({record.seconds:.1f} s on {machine}{commit})"


def _settings(entry: Entry, shown: JudgedRun, reconstructed: Mapping[str, str]) -> Iterator[Block]:
    """What it was run with, and which of that the paper gives."""
    ours = shown.record.settings
    written = {name: words for names, words in reconstructed.items() for name in names.split(", ") if name in ours}
    papers = store.plain(entry.experiment.settings.get("paper", {}))
    rows: list[tuple[str, str, str]] = []
    for name, value in ours.items():
        source = f"reconstructed: {written[name]}" if name in written else origin(entry.experiment, name)
        if "paper" in entry.experiment.settings and papers.get(name) != value:
            # What the paper gives is then another value; the reason for a reconstructed one is the same.
            larger = f"{setting(papers.get(name))} at the paper's scale"
            source = larger if source == THE_PAPER else f"{source}; {larger}"
        rows.append((name, setting(value), source))
    others = {names: words for names, words in reconstructed.items() if not set(names.split(", ")) & set(ours)}
    rows += [(names, "", f"reconstructed: {words}") for names, words in others.items()]
    if rows:
        yield TableBlock(("setting", "here", "from"), tuple(rows))


def setting(value: object) -> str:
    """A parameter as people write it.

    >>> setting([1000, 0.5, True, {"a": [1]}])
    '(1,000, 0.5, yes, (a: (1)))'
    """
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{name}: {setting(one)}" for name, one in value.items()) + ")"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(setting(one) for one in value) + ")"
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
    rows = tuple((setting(panel.x[k]), *(_point(panel, name, k) for name in panel.lines)) for k in shown)
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


def _other_runs(experiment: Experiment, runs: Sequence[JudgedRun]) -> TableBlock:
    rows = tuple(
        (
            f"{run.record.scale}, seed {run.record.seed}{', stale' if run.stale else ''}",
            in_words(experiment, run.judgement.verdict),
            f"{run.record.seconds:.1f}",
            "; ".join(f"{check.says.rstrip('.')}{_mark(check)}" for check in run.judgement.failed) or "none",
        )
        for run in runs
    )
    return TableBlock(("run", "verdict", "seconds", "failed checks"), rows)


def _check(check: Check, *, held: bool) -> str:
    """A check and its outcome; reasons and notes stand there whichever it is."""
    text = _sentence(f"**{'held' if held else 'failed'}**{_mark(check)}: {check.says.rstrip('.')}")
    if check.words:
        text += f" The paper: “{check.words}”"
    if check.elsewhere:
        text += f" Weighs nothing: {_sentence(check.elsewhere)}"
    if check.why:
        text += f" {'Where it fails' if held else 'Why'}: {_sentence(check.why)}"
    if check.note:
        text += f" Note: {_sentence(check.note)}"
    return text


def _mark(check: Check) -> str:
    kind = "statement" if check.essential else "degree" if check.degree else "elsewhere"
    return f" ({kind}{', time' if check.timed else ''})"


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
