"""Advice as a picture: recall by memory, a line for each policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from watersmeet.advise.report import Advice
from watersmeet.errors import SetupError

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
