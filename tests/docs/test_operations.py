"""What pages tell of commands, options and metrics exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.docs.test_map import pages
from tests.docs.test_shown import ROOT, blocks
from tests.serve.serving import row, serving
from watersmeet.cli.commands import app
from watersmeet.cli.state import WithShow
from watersmeet.io.connectors.databases.table_sink import BATCHES, STARTS  # tables of databases, and no metrics

# In the text as `watersmeet run …`, or on a line of a block.
COMMAND = re.compile(r"(?:`|^\$ |^)(watersmeet [a-z][^`\n]*)", re.MULTILINE)
OPTION = re.compile(r"(?<![\w'-])--[a-z][a-z-]*")


def test_every_metric_that_a_page_names_for_prometheus_is_scraped(tmp_path: Path) -> None:
    texts = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    named = {name for text in texts for name in re.findall(r"\bwatersmeet_\w+", text)} - {BATCHES, STARTS}
    with serving(tmp_path) as client:
        client.posted("a", [row(1, 2.0, 3)])
        scraped = client.get("/metrics").text
    assert len(named) > 8
    assert sorted(name for name in named if not re.search(rf"^{name}\b", scraped, re.MULTILINE)) == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_that_a_page_names_have_the_options_it_names(page: Path) -> None:
    top: Any = typer.main.get_command(app)
    assert [text for text in COMMAND.findall(page.read_text(encoding="utf-8")) if not _exists(top, text)] == []


def _exists(command: Any, text: str) -> bool:
    _, *words = text.split()
    known = set(_options(command))
    while words and hasattr(command, "commands") and (inner := command.commands.get(words[0].rstrip(",.;:"))):
        command, words = inner, words[1:]
        known |= set(_options(command))
    if isinstance(command, WithShow) and words and not words[0].startswith("-"):  # which shows, without its name
        command = command.commands["show"]
        known |= set(_options(command))
    is_named = not hasattr(command, "commands") or not words or words[0].startswith(("-", "…"))
    return is_named and set(OPTION.findall(" ".join(words))) <= known


def _options(command: Any) -> list[str]:
    return ["--help", *(name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts])]


def test_every_command_of_the_guide_is_run_by_its_examples() -> None:
    """With what runs those that it only names."""
    elsewhere = {
        "complete": "tests/unit/archive/test_archive.py",
        "replace": "tests/durable/test_taking_over.py",
    }
    page = ROOT / "docs" / "operations.md"
    run = [text for language, text in blocks(page) if language == "sh"]
    named = {" ".join(text.split()[1:]) for text in COMMAND.findall(page.read_text(encoding="utf-8"))}
    kinds = {_kind(text) for text in named}
    ran = {_kind(line) for text in run for line in text.replace("watersmeet ", "\n").splitlines()}
    assert {kind for kind in kinds - ran if kind not in elsewhere} == set()
    assert all((ROOT / path).exists() for path in elsewhere.values())


def _kind(text: str) -> str:
    """The command, and what options of it make another one of it.

    >>> _kind("explain FILE --analyze"), _kind("state size DIR --json")
    ('explain --analyze', 'state size')
    """
    words = text.split()
    inner = words[1:2] if words[:1] == ["state"] and words[1:2] != [] and words[1] == "size" else []
    telling = [one for one in words if one in ("--analyze", "--from", "--dry-run")]
    return " ".join([*words[:1], *inner, *telling])


@pytest.mark.parametrize(
    "wrong", ["watersmeet walk FILE.sql", "watersmeet run FILE.sql --triger", "watersmeet lab runn all"]
)
def test_a_command_that_does_not_exist_is_found(wrong: str) -> None:
    assert not _exists(typer.main.get_command(app), wrong)
