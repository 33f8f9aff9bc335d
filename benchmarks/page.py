"""docs/performance.md, and its plots, from what was measured: nothing there is written by hand but words.

    python -m benchmarks.page

`benchmarks/performance.md` is the page without numbers. In it `{{joins: 2-way hash, window 10,000 rows, kernel}}` is
the figure of that name in results/joins.json, its median and from the lowest to the highest; `{{figures joins}}` is a
table of all of that file, `{{figures joins: kernel}}` of those whose names have the word; `{{plot peers}}` a picture;
`{{share: one push: join of two; Python + numpy}}` is the part that these have of its time in results/profiles.json;
and `{{peers}}`, `{{memory}}`, `{{growth}}`, `{{latency}}`, `{{profiles}}` and `{{nexmark}}` are tables of their own. A
file of results that is not there yet reads "not measured", and so does a figure that a file does not have, of which
`python -m benchmarks.page` tells.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks import latency_rivals, nexmark
from benchmarks.growth import CURVES
from benchmarks.harness import RESULTS
from benchmarks.peers import WHY
from watersmeet.lab.experiment import Panel
from watersmeet.lab.report.plots import draw_panel

TEMPLATE = Path(__file__).with_name("performance.md")
DOCS = Path(__file__).parents[1] / "docs"
PLACE = re.compile(r"\{\{(\w+)(?: (\w+))?(?:: ([^}]*))?\}\}")
LATENCY = re.compile(r"(?<=<!-- latency beside others -->\n).*?(?=\n<!-- end of it -->)", re.DOTALL)
MISSING = "not measured"


@cache
def results(benchmark: str) -> dict[str, Any] | None:
    path = RESULTS / f"{benchmark}.json"
    return json.loads(path.read_text()) if path.exists() else None


def number(value: float) -> str:
    """Three digits, or all before the point.

    >>> number(0.03125), number(2.5), number(123456.7)
    ('0.0312', '2.5', '123,457')
    """
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def spread(one: dict[str, Any]) -> str:
    low, median, high = (number(one[which]) for which in ("low", "median", "high"))
    return median if low == high else f"{median} ({low}–{high})"


def one_figure(benchmark: str, name: str) -> str:
    found = results(benchmark)
    if found is None:
        return MISSING
    for one in found["figures"]:
        if one["name"] == name:
            return spread(one)
    print(f"results/{benchmark}.json has no figure {name!r}, which the page asks for", file=sys.stderr)
    return MISSING


def figures(benchmark: str, word: str | None) -> str:
    found = results(benchmark)
    if found is None:
        return f"*{MISSING}: `python -m benchmarks.{benchmark}`*"
    lines = ["| | | goal |", "|---|---|---|"]
    for one in found["figures"]:
        if word is None or word in one["name"]:
            lines.append(f"| {one['name']} | {spread(one)} {one['unit']} | {one['goal']} |")
    return "\n".join([*lines, "", *circumstances(found)]).rstrip()


def circumstances(found: dict[str, Any]) -> list[str]:
    """How busy the machine was; results of before have not noted it."""
    if "load" not in found:
        return []
    told = f"The machine had a load of {found['load']} on {found['cores']} cores."
    whole = found.get("whole", True)
    part = "" if whole else " The last run was of a part, or was cut off: other figures are of one before."
    return [told + part, ""]


# ---- where the time goes ---------------------------------------------------------------------------------------------

SHOWN_SHARES, SHOWN_ROOMS = 5, 3
SHARES = ("kernels", "libraries", "rooms", "functions")


def percent(share: float) -> str:
    """
    >>> percent(0.347), percent(0.004)
    ('35 %', 'under 1 %')
    """
    return f"{share:.0%}".replace("%", " %") if share >= 0.005 else "under 1 %"


def share(asked: str) -> str:
    """Of a workload, and of what: kernels, libraries, rooms or functions, whose shares are added."""
    workload, _, names = asked.partition("; ")
    found = results("profiles")
    one = next((one for one in (found or {"figures": []})["figures"] if one["name"] == workload), None)
    if one is None:
        print(f"results/profiles.json has no workload {workload!r}, which the page asks for", file=sys.stderr)
        return MISSING
    notes = one["notes"]
    return percent(sum(_share_of(notes, name) for name in names.split(" + ")))


def _share_of(notes: dict[str, Any], name: str) -> float:
    return next((notes[kind][name] for kind in SHARES if name in notes.get(kind, ())), 0.0)


def profiles(_: str | None) -> str:
    """The largest shares of each workload, kernels by name and all others by library, and the largest rooms."""
    found = results("profiles")
    if found is None:
        return f"*{MISSING}: `python -m benchmarks.profiles`*"
    lines = ["| | largest shares of its time | largest rooms of the source, with what they call | samples |"]
    lines.append("|---|---|---|---|")
    for one in found["figures"]:
        notes = one["notes"]
        by_clock = "kernels" not in notes
        largest = _largest(notes["functions" if by_clock else "kernels"], SHOWN_SHARES)
        clock = ", by the clock" if by_clock else ""
        samples = f"{one['median']:,.0f}"
        lines.append(f"| {one['name']}{clock} | {largest} | {_largest(notes['rooms'], SHOWN_ROOMS)} | {samples} |")
    return "\n".join([*lines, "", *circumstances(found)]).rstrip()


def _largest(shares: dict[str, float], most: int) -> str:
    return ", ".join(f"{_word(name)} {percent(part)}" for name, part in list(shares.items())[:most])


def _word(name: str) -> str:
    """Names of the source stand out."""
    return f"`{name}`" if re.search(r"[./_]", name) else name


# ---- beside others ---------------------------------------------------------------------------------------------------


def peers(_: str | None) -> str:
    """Engines by queries: cold and warm; and why some have no number."""
    found = results("peers")
    if found is None:
        return f"*{MISSING}: `python -m benchmarks.peers`*"
    queries = list(dict.fromkeys(one["query"] for one in found["figures"]))
    engines = [one for one in found["how"] if any(other["engine"] == one for other in found["figures"])]
    of = {(one["engine"], one["query"]): one for one in found["figures"]}
    lines = [f"| | {' | '.join(queries)} |", f"|{'---|' * (len(queries) + 1)}"]
    for engine in engines:
        lines.append(f"| {engine} | {' | '.join(_peer(of.get((engine, query)), found['rows']) for query in queries)} |")
    why = dict.fromkeys(
        f"- {one['engine']}{'' if kind == 'left_out' else ', ' + one['query']}: {_WHY[kind]}{one[kind]}"
        for one in found["figures"]
        for kind in WHY
        if kind in one
    )
    loads = [one["load"] for one in found["figures"]]
    told = (
        f"Seconds from the start of a process to the last row / of a warm run (and of processors), median of "
        f"{found['runs']}; {found['rows']:,} rows a query, but where fewer are told; {found['cores']} cores, with a "
        f"load of {min(loads):.1f} to {max(loads):.1f} before each."
    )
    return "\n".join([*lines, "", told, *_fewer(found), *_of_topics(found), "", *why])


def _fewer(found: dict[str, Any]) -> list[str]:
    """Whose time would be most of the table's."""
    once = dict.fromkeys(one["engine"] for one in found["figures"] if one.get("runs", found["runs"]) < found["runs"])
    told = (
        f"For the whole to take twenty minutes at most, these ran some or all queries but once warm: {', '.join(once)}."
    )
    return [told] if once else []


def _of_topics(found: dict[str, Any]) -> list[str]:
    """What engines that read topics take to read them, which is part of their figures."""
    alone = [one for one in found["figures"] if "topics_s" in one]
    told = ", ".join(f"{one['query']} {number(one['topics_s'])}" for one in alone)
    return [f"Of {alone[0]['engine']} reading the topics alone takes, in seconds: {told}."] if alone else []


def _peer(one: dict[str, Any] | None, rows: int) -> str:
    if one is None:
        return MISSING
    if "cold_s" in one:
        processor = f" ({number(one['processor_s'])})" if one["processor_s"] else ""
        fewer = f"{one['rows']:,} rows: " if one.get("rows", rows) < rows else ""
        return f"{fewer}{number(one['cold_s'])} / {number(one['warm_s'])}{processor}"
    return next(kind for kind in WHY if kind in one).replace("_", " ")


_WHY = {
    "cannot": "",
    "left_out": "left out, as ",
    "wrong": "no time is told, as ",
    "failed": "no time is told: ",
}


def memory(_: str | None) -> str:
    """What live rows take, beside their Arrow bytes."""
    found = results("memory")
    cases = [one for one in (found or {"figures": []})["figures"] if "arrow" in one["notes"]]
    if found is None or not cases:
        return f"*{MISSING}: `python -m benchmarks.memory`*"
    lines = [
        "| a live row, in bytes | Arrow | held | times | the process grew by | written to disk | peak, MB "
        "| ns a row: processors / clock |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in cases:
        notes = one["notes"]
        lines.append(
            f"| {one['name']} | {number(notes['arrow'])} | {spread(one)} | {one['median'] / notes['arrow']:.2f} | "
            f"{number(notes['resident'])} | {number(notes['spilled']) if notes['spilled'] else ''} | "
            f"{number(notes['peak_mb'])} | {number(notes['processor_ns'])} / {number(notes['clock_ns'])} |"
        )
    return "\n".join([*lines, "", *circumstances(found)]).rstrip()


def latency(_: str | None) -> str:
    found = results("latency_rivals")
    return MISSING if found is None else latency_rivals.told(found)


# ---- plots -----------------------------------------------------------------------------------------------------------


def peers_panel() -> Panel | None:
    """What a row takes of a warm run, a line of points for each engine."""
    found = results("peers")
    if found is None:
        return None
    queries = list(dict.fromkeys(one["query"] for one in found["figures"]))
    of = {
        (one["engine"], one["query"]): 1e6 * one["warm_s"] / one.get("rows", found["rows"])
        for one in found["figures"]
        if "warm_s" in one
    }
    engines = [one for one in found["how"] if any(of.get((one, query)) for query in queries)]
    lines = {engine: [of.get((engine, query)) for query in queries] for engine in engines}
    title = "Microseconds a row of a warm run, beside others"
    return Panel(title, "query", "µs a row", queries, lines, y_log=True)


def growth_panel(curve: str) -> Panel | None:
    """Nanoseconds of a row over what is turned up; a power is a straight line."""
    found = [one for one in (results("growth") or {"figures": []})["figures"] if one["notes"]["curve"] == curve]
    if not found:
        return None
    what, _, _ = found[0]["name"].rpartition(": ")
    cost = {which: {"a row": [one[which] for one in found]} for which in ("median", "low", "high")}
    return Panel(
        f"What a row costs by {what}",
        what,
        "ns of a processor",
        [one["notes"]["x"] for one in found],
        cost["median"],
        x_log=True,
        y_log=True,
        low=cost["low"],
        high=cost["high"],
    )


PANELS: dict[str, Callable[[], Panel | None]] = {
    "peers": peers_panel,
    **{f"growth-{curve}": partial(growth_panel, curve) for curve in CURVES},
}


def growth(_: str | None) -> str:
    """The exponent of each curve, from its lowest to its highest point, and its picture."""
    found = results("growth")
    if found is None:
        return f"*{MISSING}: `python -m benchmarks.growth`*"
    lines = ["| over | from | ns a row | to | ns a row | grows as |", "|---|---|---|---|---|---|"]
    pictures = []
    for curve in CURVES:
        points = [one for one in found["figures"] if one["notes"]["curve"] == curve]
        if points:
            first, last = points[0], points[-1]
            what, _, _ = first["name"].rpartition(": ")
            ends = " | ".join(f"{one['notes']['x']:,} | {spread(one)}" for one in (first, last))
            lines.append(f"| {what} | {ends} | x^{first['notes']['exponent']:g} |")
            pictures.append(plot(f"growth-{curve}"))
    return "\n".join([*lines, "", *circumstances(found), *pictures])


def plot(name: str) -> str:
    panel = PANELS[name]()
    return f"*{MISSING}*" if panel is None else f"![{panel.title}](pictures/performance-{name}.svg)"


# ---- the page --------------------------------------------------------------------------------------------------------

TABLES: dict[str, Callable[[str | None], str]] = {
    "peers": peers,
    "latency": latency,
    "memory": memory,
    "growth": growth,
    "profiles": profiles,
    "nexmark": lambda name: nexmark.table(name or "nexmark"),
}


def filled(place: re.Match[str]) -> str:
    first, second, name = place.groups()
    if first == "figures":
        return figures(second, name)
    if first == "plot":
        return plot(second)
    if first == "share":
        return share(name)
    return one_figure(first, name) if name is not None else TABLES[first](second)


def rendered() -> str:
    return PLACE.sub(filled, TEMPLATE.read_text())


def beside(page: str) -> str:
    """Another page with the part of the table that is at 10,000 rows/s."""
    found = results("latency_rivals")
    return page if found is None else LATENCY.sub(lambda _: latency_rivals.told(found, [10_000]), page)


def main() -> None:
    (DOCS / "performance.md").write_text(rendered())
    other = DOCS / "coming_from.md"
    other.write_text(beside(other.read_text()))
    for name, panel in PANELS.items():
        drawn = panel()
        if drawn is not None:
            (DOCS / "pictures" / f"performance-{name}.svg").write_text(draw_panel(drawn))


if __name__ == "__main__":
    main()
