"""Tables of the documentation that the code has: `make golden` writes them."""

from __future__ import annotations

import inspect
import os
import re

import pytest

from tests.docs.test_shown import LAB, LANGUAGE, ROOT
from watersmeet.model import stream_options
from watersmeet.model.metric import Metric
from watersmeet.plan import options
from watersmeet.runtime.metrics import DERIVED, METRICS, Metrics

HOSTS = {"both": "both", "in-process": "in-process", "spark": "Spark"}


def metric(one: Metric) -> str:
    name = f"`{one.name}`{' *' if one.if_any else ''}"
    return f"| {name} | {one.words} | {one.kind.words} | {HOSTS[one.where]} |"


def derived(name: str) -> str:
    words = inspect.getdoc(getattr(Metrics, name).fget) or ""
    star = " *" if name == "recall_between" else ""
    return f"| `{name}`{star} | {words[0].lower() + words[1:]} | computed | {HOSTS[DERIVED[name]]} |"


TABLES = {
    "option of a stream or table": (LANGUAGE, stream_options.documented()),
    "option": (LANGUAGE, options.documented("language")),
    "option of an algorithm": (LAB, options.documented("lab")),
    "metric": (ROOT / "docs" / "metrics.md", [*map(metric, METRICS.values()), *map(derived, DERIVED)]),
}


@pytest.mark.parametrize("title", TABLES)
def test_a_table_of_a_page_is_that_of_the_code(title: str) -> None:
    page, lines = TABLES[title]
    # What is written by hand below them has more than a name in its first column.
    table = re.compile(rf"(?<=^\| {title} \|)(.*\n.*\n)((?:\| `\w+`(?: \*)? \|.*\n)+)", re.MULTILINE)
    text = page.read_text(encoding="utf-8")
    found = table.search(text)
    assert found is not None
    empty = [line for line in lines if "|  |" in line]
    assert not empty, f"say in the table of the code what may be written: {empty}"
    if os.environ.get("WATERSMEET_REWRITE"):
        page.write_text(text[: found.start(2)] + "\n".join(lines) + "\n" + text[found.end(2) :], encoding="utf-8")
        return
    assert found[2].splitlines() == lines, f"`make golden` writes this table of docs/{page.name} anew"
