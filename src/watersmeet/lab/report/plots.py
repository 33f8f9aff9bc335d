"""The plots of the report, in one style. The same numbers give the same file, byte by byte."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from textwrap import wrap
from typing import Any

from watersmeet.errors import SetupError
from watersmeet.lab.experiment import Line, Panel
from watersmeet.lab.report.gather import Entry

# Okabe and Ito's colours, which most people can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
MARKERS = "osD^vPX*"
DASHES = ("-", (0, (6, 1.5)), (0, (3, 1.5)), (0, (1, 1)))  # lines that lie on each other can still be seen
MANY_POINTS = 20  # beyond, markers would hide the line
# Inches. As wide as the screen of a phone, so that letters there keep their size; a line of the legend makes it higher.
WIDTH, HEIGHT, LEGEND_LINE = 5.2, 3.1, 0.19
SMALL = (1.6, 0.8)
# So many letters fit below the axis, beside it, above the plot, and into a line of the legend.
LETTERS, Y_LETTERS, TITLE_LETTERS, LEGEND_LETTERS = 46, 36, 60, 66
TITLE_WORDS = 5  # fewer do not say what is to be seen
SHORT = (1e-3, 1e6)  # numbers that are written out on logarithmic axes
STYLE: Mapping[str, Any] = {
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.titlesize": 10,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "watersmeet",  # else ids in the file would be random
}


def draw_plots(entries: Sequence[Entry]) -> dict[str, str]:
    """The plots of what is shown in full, as SVG, by name. A line has one colour throughout a paper."""
    plots: dict[str, str] = {}
    for paper in dict.fromkeys(entry.experiment.paper for entry in entries):
        ours = [entry for entry in entries if entry.experiment.paper == paper and entry.runs]
        panels = {entry.experiment.id: entry.runs[0].record.result.panels for entry in ours}
        looks = _looks(panel for several in panels.values() for panel in several)
        for experiment, several in panels.items():
            for number, panel in enumerate(several):
                if panel.table_only:
                    continue
                plots[plot_name(experiment, number)] = _draw(panel, looks)
    return plots


def draw_small(entries: Sequence[Entry]) -> dict[str, str]:
    """The first plot of each that is shown in full, once more in small, by name."""
    small: dict[str, str] = {}
    for paper in dict.fromkeys(entry.experiment.paper for entry in entries):
        ours = [entry for entry in entries if entry.experiment.paper == paper and entry.runs]
        firsts = {entry.experiment.id: its_panel(entry) for entry in ours}
        shown = {name: panel for name, panel in firsts.items() if panel is not None}
        looks = _looks(shown.values())
        small |= {small_name(name): _draw_small(panel, looks) for name, panel in shown.items()}
    return small


def its_panel(entry: Entry) -> Panel | None:
    """The plot that stands for an experiment."""
    panels = entry.runs[0].record.result.panels
    return panels[entry.experiment.plot] if panels else None


def small_name(experiment: str) -> str:
    return f"{experiment}-small"


def _draw_small(panel: Panel, looks: Mapping[str, int]) -> str:
    """The lines alone, without words: what is meant is beside it."""
    pyplot = _pyplot()
    with pyplot.rc_context({**STYLE, "lines.linewidth": 1.2, "lines.markersize": 2.5, "axes.grid": False}):
        figure, axes = pyplot.subplots(figsize=SMALL)
        try:
            _fill(axes, panel, looks)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.minorticks_off()
            axes.set(xlabel="", ylabel="")
            out = io.StringIO()
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        finally:
            pyplot.close(figure)
    return out.getvalue()


def draw_panel(panel: Panel) -> str:
    """One plot that stands alone, as SVG."""
    return _draw(panel, _looks([panel]))


def plot_name(experiment: str, panel: int) -> str:
    return f"{experiment}-{panel + 1}"


def _looks(panels: Iterable[Panel]) -> dict[str, int]:
    """The number of each line, by the order in which they first come."""
    names = dict.fromkeys(name for panel in panels for name in panel.lines)
    return {name: number for number, name in enumerate(names)}


def _draw(panel: Panel, looks: Mapping[str, int]) -> str:
    pyplot = _pyplot()
    with pyplot.rc_context(dict(STYLE)):
        columns = _columns(panel.lines)
        lines = ceil(len(panel.lines) / columns) if len(panel.lines) > 1 else 0
        figure, axes = pyplot.subplots(figsize=(WIDTH, HEIGHT + LEGEND_LINE * lines))
        try:
            _fill(axes, panel, looks)
            axes.set_title(_broken(panel_title(panel), TITLE_LETTERS))
            axes.set(xlabel=_broken(panel.x_label, TITLE_LETTERS), ylabel=_broken(panel.y_label, Y_LETTERS))
            if lines:
                figure.legend(loc="outside lower center", ncols=columns)
            out = io.StringIO()
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        finally:
            pyplot.close(figure)
    return out.getvalue()


def panel_title(panel: Panel) -> str:
    """What a plot shows, also to someone who sees nothing but it: a short title gets what is drawn over what.

    >>> panel_title(Panel("Both rates alike", "rate (rows/s)", "rows scanned", [], {}))
    'Both rates alike: rows scanned by rate (rows/s)'
    >>> panel_title(Panel("Rows that are held by each strategy, in seconds", "x", "y", [], {}))
    'Rows that are held by each strategy, in seconds'
    """
    words = [word for word in re.split(r"\W+", panel.title) if len(word) > 2 and word.isalpha()]
    if len(words) >= TITLE_WORDS:
        return panel.title
    return f"{panel.title}: {panel.y_label}" + (f" by {panel.x_label}" if panel.x_label else "")


def _fill(axes: Any, panel: Panel, looks: Mapping[str, int]) -> None:
    # A bar is read by its length, which a logarithmic axis has not: points then.
    by_words = panel.bars or any(isinstance(x, str) for x in panel.x)
    if by_words:
        (_points if panel.y_log else _bars)(axes, panel, looks)
        _name_places(axes, panel)
    else:
        _curves(axes, panel, looks)
    if panel.y_log:
        axes.set_yscale("log")
        _plain_numbers(axes.yaxis)
    else:
        # From 0, so that a small difference does not look like a large one.
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        _ticks(axes.yaxis, [y for line in panel.lines.values() for y in line])
    if not by_words and not panel.x_log:
        _ticks(axes.xaxis, panel.x)


def _curves(axes: Any, panel: Panel, looks: Mapping[str, int]) -> None:
    for name, line in panel.lines.items():
        points = [(x, y) for x, y in zip(panel.x, line, strict=True) if y is not None]
        look = looks[name]
        axes.plot(
            *zip(*points, strict=True) if points else ((), ()),
            label=name,
            color=_colour(look),
            marker=MARKERS[look % len(MARKERS)] if len(points) <= MANY_POINTS else None,
            # The ninth line has the first colour again, and this shift gives it another dash.
            linestyle=DASHES[(look + look // len(COLOURS)) % len(DASHES)],
        )
        _spread(axes, panel, name, panel.x, _colour(look))
    if panel.x_log:
        axes.set_xscale("log")
        _plain_numbers(axes.xaxis)


def _bars(axes: Any, panel: Panel, looks: Mapping[str, int]) -> None:
    for name, line, at, width in _places(panel):
        heights = [0.0 if y is None else y for y in line]
        axes.bar(at, heights, width, label=name, color=_colour(looks[name]))
        _spread(axes, panel, name, at, "#222222")


def _points(axes: Any, panel: Panel, looks: Mapping[str, int]) -> None:
    for name, line, at, _ in _places(panel):
        points = [(x, y) for x, y in zip(at, line, strict=True) if y is not None]
        look = looks[name]
        axes.plot(
            *zip(*points, strict=True) if points else ((), ()),
            label=name,
            color=_colour(look),
            marker=MARKERS[look % len(MARKERS)],
            linestyle="none",
        )
        _spread(axes, panel, name, at, _colour(look))


def _spread(axes: Any, panel: Panel, name: str, at: Sequence[Any], colour: str) -> None:
    """From the least to the most: a bar at each point, or a band where there are many."""
    if name not in panel.low:
        return
    both = zip(at, panel.low[name], panel.high[name], strict=True)
    known = [(x, low, high) for x, low, high in both if low is not None and high is not None]
    if not known:
        return
    x, low, high = zip(*known, strict=True)
    if len(known) > MANY_POINTS:
        axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    else:
        axes.vlines(x, low, high, color=colour, linewidth=1.2)
        axes.plot([*x, *x], [*low, *high], color=colour, marker="_", linestyle="none", markersize=6)


def _places(panel: Panel) -> Iterator[tuple[str, Line, list[float], float]]:
    """Each line of a panel over words, with its places on the axis and how wide one is."""
    width = 0.8 / len(panel.lines)
    for place, (name, line) in enumerate(panel.lines.items()):
        yield name, line, [x - 0.4 + width * (place + 0.5) for x in range(len(panel.x))], width


def _name_places(axes: Any, panel: Panel) -> None:
    room = max(6, LETTERS // len(panel.x))
    axes.set_xticks(range(len(panel.x)), [_broken(str(x), room) for x in panel.x])
    axes.grid(visible=False, axis="x")


def _ticks(axis: Any, values: Iterable[float | str | None]) -> None:
    """Where these are counts nothing lies between two whole numbers, so no tick may."""
    if all(value is None or (not isinstance(value, str) and value == int(value)) for value in values):
        axis.get_major_locator().set_params(integer=True)
        axis.set_major_formatter("{x:,.0f}")


def _plain_numbers(axis: Any) -> None:
    """6,000 rather than 6 times a power of ten, on logarithmic axes, as long as that is short."""
    from matplotlib.ticker import LogFormatterSciNotation

    class Plain(LogFormatterSciNotation):  # type: ignore[misc]  # Matplotlib may not be installed
        def __call__(self, value: float, place: int | None = None) -> str:
            usual: str = super().__call__(value, place)  # empty for ticks that have no room for words
            return f"{value:,g}" if usual and SHORT[0] <= value < SHORT[1] else usual

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain())


def _columns(names: Iterable[str]) -> int:
    """How many columns of the legend fit below the plot."""
    longest = max(map(len, names)) + 5
    return max(1, min(4, LEGEND_LETTERS // longest))


def _broken(text: str, letters: int) -> str:
    return "\n".join(wrap(text, letters))


def _colour(look: int) -> str:
    return COLOURS[look % len(COLOURS)]


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise SetupError("the report needs Matplotlib", hint="pip install 'watersmeet[lab]'") from None
    matplotlib.use("agg")  # draws without a display
    from matplotlib import pyplot

    return pyplot
