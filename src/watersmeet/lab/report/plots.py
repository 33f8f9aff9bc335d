"""The plots of the report, in one style. The same numbers give the same file, byte by byte."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

from watersmeet.errors import SetupError
from watersmeet.lab.experiment import Panel
from watersmeet.lab.report.gather import Entry

# Okabe and Ito's colours, which most people can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999933")
MARKERS = "osD^vPX*"
DASHES = ("-", (0, (6, 1.5)), (0, (3, 1.5)), (0, (1, 1)))  # lines that lie on each other can still be seen
MANY_POINTS = 20  # beyond, markers would hide the line
LETTERS = 64  # fit below the axis
STYLE: Mapping[str, Any] = {
    "figure.figsize": (7.2, 3.4),
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
                plots[plot_name(experiment, number)] = _draw(panel, looks)
    return plots


def plot_name(experiment: str, panel: int) -> str:
    return f"{experiment}-{panel + 1}"


def _looks(panels: Iterable[Panel]) -> dict[str, int]:
    """The number of each line, by the order in which they first come."""
    names = dict.fromkeys(name for panel in panels for name in panel.lines)
    return {name: number for number, name in enumerate(names)}


def _draw(panel: Panel, looks: Mapping[str, int]) -> str:
    pyplot = _pyplot()
    with pyplot.rc_context(dict(STYLE)):
        figure, axes = pyplot.subplots()
        try:
            (_bars if panel.bars else _curves)(axes, panel, looks)
            axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
            if panel.y_log:
                axes.set_yscale("log")
            elif not panel.bars:
                # From 0, so that a small difference does not look like a large one.
                axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
            if len(panel.lines) > 1:
                figure.legend(loc="outside right upper")
            out = io.StringIO()
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        finally:
            pyplot.close(figure)
    return out.getvalue()


def _curves(axes: Any, panel: Panel, looks: Mapping[str, int]) -> None:
    for name, line in panel.lines.items():
        points = [(x, y) for x, y in zip(panel.x, line, strict=True) if y is not None]
        look = looks[name]
        axes.plot(
            *zip(*points, strict=True) if points else ((), ()),
            label=name,
            color=COLOURS[look % len(COLOURS)],
            marker=MARKERS[look % len(MARKERS)] if len(points) <= MANY_POINTS else None,
            # The ninth line has the first colour again, and this shift gives it another dash.
            linestyle=DASHES[(look + look // len(COLOURS)) % len(DASHES)],
        )
    if panel.x_log:
        axes.set_xscale("log")


def _bars(axes: Any, panel: Panel, looks: Mapping[str, int]) -> None:
    width = 0.8 / len(panel.lines)
    for place, (name, line) in enumerate(panel.lines.items()):
        at = [x - 0.4 + width * (place + 0.5) for x in range(len(panel.x))]
        heights = [0.0 if y is None else y for y in line]
        axes.bar(at, heights, width, label=name, color=COLOURS[looks[name] % len(COLOURS)])
    room = max(6, LETTERS // len(panel.x))
    axes.set_xticks(range(len(panel.x)), ["\n".join(wrap(str(x), room)) for x in panel.x])
    axes.grid(visible=False, axis="x")


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise SetupError("the report needs Matplotlib", hint="pip install 'watersmeet[lab]'") from None
    matplotlib.use("agg")  # draws without a display
    from matplotlib import pyplot

    return pyplot
