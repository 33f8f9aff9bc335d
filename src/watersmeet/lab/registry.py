"""Which experiments there are: those of the papers, in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module

from watersmeet.errors import CatalogError
from watersmeet.lab.experiment import Experiment

PAPERS: tuple[str, ...] = ("k05", "go03", "h02", "h04", "dgr03")  # in lab/papers, each with its EXPERIMENTS
ALL = "all"


@cache
def experiments() -> dict[str, Experiment]:
    """Every experiment by its id."""
    found: dict[str, Experiment] = {}
    for paper in PAPERS:
        for one in import_module(f"watersmeet.lab.papers.{paper}").EXPERIMENTS:
            if one.id in found:
                raise CatalogError(f"two experiments are called {one.id}")
            found[one.id] = one
    return found


def select(names: Sequence[str], known: dict[str, Experiment] | None = None) -> list[Experiment]:
    """The experiments that ids, papers or `all` name, each once, in the order of the report.

    >>> [one.id for one in select(["d-w2", "D-W1"])]
    ['D-W1', 'D-W2']
    """
    choices = experiments() if known is None else known
    wanted: set[str] = set()
    for name in names:
        matching = [one.id for one in choices.values() if name.lower() in (one.id.lower(), one.paper.lower(), ALL)]
        if not matching:
            raise _unknown(name, choices)
        wanted.update(matching)
    return [one for one in choices.values() if one.id in wanted]


def _unknown(name: str, choices: dict[str, Experiment]) -> CatalogError:
    papers = list(dict.fromkeys(one.paper for one in choices.values()))
    spelt = {known.lower(): known for known in (*choices, *papers, ALL)}
    near = [spelt[match] for match in get_close_matches(name.lower(), spelt, n=3, cutoff=0.5)]
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return CatalogError(
        f"there is no experiment or paper {name!r}",
        hint=f"{hint}`watersmeet lab list` shows all; papers are {', '.join(papers)}",
    )
