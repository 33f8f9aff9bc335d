"""The report of the lab: a page, in Markdown and in HTML, written from the stored results alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from watersmeet.lab.experiment import Experiment
from watersmeet.lab.groups import is_figure
from watersmeet.lab.report.gather import gather
from watersmeet.lab.report.html import as_html
from watersmeet.lab.report.markdown import as_markdown
from watersmeet.lab.report.page import page
from watersmeet.lab.report.plots import draw_plots, draw_small

NAME = "reproduction"


def write_report(results: Path, docs: Path, known: Mapping[str, Experiment]) -> list[Path]:
    """Write `reproduction.md`, `reproduction.html` and the plots; the same results always give the same files."""
    entries = gather(results, known)
    plots = draw_plots(entries) | draw_small([entry for entry in entries if is_figure(entry.experiment)])
    blocks = page(entries, plots, folder=NAME, conditions=_conditions(results))
    docs.mkdir(parents=True, exist_ok=True)
    images = docs / NAME
    images.mkdir(exist_ok=True)
    # Plots of experiments that are gone would stay in the docs for ever.
    for old in images.glob("*.svg"):
        if old.stem not in plots:
            old.unlink()
    written = {images / f"{name}.svg": svg for name, svg in plots.items()}
    written[docs / f"{NAME}.md"] = as_markdown(blocks)
    written[docs / f"{NAME}.html"] = as_html(blocks, plots)
    for path, text in written.items():
        path.write_text(text, encoding="utf-8")
    return list(written)


def _conditions(results: Path) -> str:
    """What whoever measured says of the machine, in `conditions.txt`, as one paragraph; nothing if it is not there."""
    path = results / "conditions.txt"
    return " ".join(path.read_text(encoding="utf-8").split()) if path.exists() else ""
