"""The map of the documentation, which is the navigation of the site, has every page and every public name."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.test_shown import ROOT

sys.path.append(str(ROOT / "docs" / "site"))
api, navigation, words = map(importlib.import_module, ("api", "navigation", "words"))

MAP = ROOT / "docs" / "README.md"
LINK = re.compile(r"\]\(([^)#\s]*)#?([^)\s]*)\)")


def pages() -> list[Path]:
    """What the site is made of: all pages of the documentation, and those beside the code."""
    beside = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*(ROOT / "docs").rglob("*.md"), *beside, *(ROOT / "examples").rglob("*.md"), ROOT / "benchmarks/README.md"]


def test_the_navigation_lists_every_page_once() -> None:
    listed = re.findall(r"<(.+)>$", navigation.toctrees(MAP.read_text(encoding="utf-8")), re.MULTILINE)
    found = [(MAP.parent / f"{name}.md").resolve() for name in listed]
    assert sorted(found) == sorted(page for page in pages() if page != MAP)


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_to_files_and_headings(page: Path) -> None:
    """On a forge and on the site alike."""
    links = [one for one in LINK.findall(_outside_blocks(page)) if not one[0].startswith("http")]
    assert [f"{file}#{anchor}" for file, anchor in links if not _leads_somewhere(page, file, anchor)] == []


def _leads_somewhere(page: Path, file: str, anchor: str) -> bool:
    there = (page.parent / file).resolve() if file else page
    made_by_the_site = there == ROOT / "docs" / "api.md"
    return there.exists() and (not anchor or made_by_the_site or anchor in anchors(there))


@cache
def anchors(page: Path) -> set[str]:
    """As a forge makes them of headings, of those that come again with a number."""
    found: list[str] = []
    for title in headings(page):
        slug = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return {*found, *re.findall(r'<a id="([\w-]+)">', page.read_text(encoding="utf-8"))}


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (?:<a id.*?></a>)?(.+)$", _outside_blocks(page).replace("`", ""), re.MULTILINE)


def _outside_blocks(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_the_contents_of_the_language_are_its_headings() -> None:
    page = ROOT / "docs" / "language.md"
    contents = page.read_text(encoding="utf-8").partition("## Contents\n")[2].partition("\n## ")[0]
    assert re.findall(r"- \[([^\]]+)\]\(#", contents) == headings(page)[2:]


@pytest.mark.parametrize("module", api.MODULES)
def test_every_public_name_has_a_docstring_and_its_methods_too(module: str) -> None:
    assert undocumented(module) == []


def undocumented(module: str) -> list[str]:
    found = []
    for name, value in api.public_names(module).items():
        found += [] if (value.__doc__ or "").strip() else [name]
        if inspect.isclass(value):
            members = {one: getattr(value, one) for one in vars(value) if not one.startswith("_")}
            found += [f"{name}.{one}" for one, member in members.items() if not _said(member)]
    return found


def _said(member: object) -> bool:
    plain = not (callable(member) or isinstance(member, property))
    return plain or bool(inspect.getdoc(member))


def test_what_several_modules_export_is_documented_once() -> None:
    assert "ParquetStream" in api.public_names("watersmeet")
    assert "ParquetStream" not in api.public_names("watersmeet.spark")


@pytest.mark.parametrize("module", [api, navigation, words], ids=["api", "navigation", "words"])
def test_the_examples_of_what_makes_the_site_run(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
