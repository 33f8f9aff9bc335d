"""The site in a real Chromium, straight from its files: fits a phone, in the dark too, finds words, asks nobody.

Needs what `make docs` has built, Playwright for Python and a Chromium; WATERSMEET_CHROMIUM says where another one is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.docs.test_map import api, pages
from tests.docs.test_shown import ROOT

playwright = pytest.importorskip("playwright.sync_api", reason="the site is tested through Playwright")
SITE = ROOT / "build" / "docs"
CHROMIUM = os.environ.get("WATERSMEET_CHROMIUM") or shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="`make docs` has not built the site"),
]
PHONE = {"width": 360, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        flags = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = started.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, scheme: str, site: str = SITE.as_uri()) -> Iterator[Any]:
    """A page of a phone's width that may ask for files of the site only, and may say nothing wrong."""
    context = browser.new_context(viewport=PHONE, color_scheme=scheme)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda one: None if one.url.startswith((site, "data:")) else wrong.append(one.url))
    try:
        yield page
        assert wrong == []
    finally:
        context.close()


def built() -> list[Path]:
    return [(SITE / page.relative_to(ROOT)).with_suffix(".html") for page in pages()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(browser: Any, scheme: str) -> None:
    with opened(browser, scheme) as page:
        wide = []
        for file in built():
            page.goto(file.as_uri())
            if page.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
                wide.append(file.name)
        assert wide == []
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")


def test_wide_tables_and_code_scroll_in_their_box(browser: Any) -> None:
    with opened(browser, "light") as page:
        page.goto((SITE / "docs" / "metrics.html").as_uri())
        assert page.evaluate("(e => e.scrollWidth > e.clientWidth)(document.querySelector('.table-wrapper'))")
        page.goto((SITE / "docs" / "tutorial.html").as_uri())
        assert page.evaluate("[...document.querySelectorAll('article pre')].some(e => e.scrollWidth > e.clientWidth)")


@contextmanager
def on_a_server() -> Iterator[str]:
    """The site behind a plain server, as it is published. From files a browser does not show where words stand."""
    handler = partial(Quiet, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_the_first_page_leads_to_the_tutorial_and_the_search_finds_words(browser: Any) -> None:
    with on_a_server() as site, opened(browser, "light", site) as page:
        page.goto(site)
        page.wait_for_url("**/docs/README.html")
        page.locator("article").get_by_role("link", name="Tutorial").click()
        page.wait_for_url("**/docs/tutorial.html")
        page.goto(f"{site}search.html?q=lateness")
        page.wait_for_selector("#search-results li p.context")
        assert "late" in page.locator("#search-results li").first.inner_text()


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("set allowed lateness", "language.html#event-time"),
        ("read a changelog", "language.html#answers-that-change"),
        ("resume after a crash", "durable.html"),
        ("upsert into PostgreSQL", "databases.html#upsert"),
        ("look at a checkpoint", "durable.html#look-at-a-checkpoint"),
    ],
)
def test_the_search_leads_from_the_words_of_other_systems_to_the_place(browser: Any, query: str, place: str) -> None:
    with on_a_server() as site, opened(browser, "light", site) as page:
        page.goto(f"{site}search.html?q={query.replace(' ', '+')}")
        first = page.locator("#search-results li a").first
        assert place in str(first.get_attribute("href"))


def test_every_public_name_is_on_the_page_of_the_api() -> None:
    text = (SITE / "docs" / "api.html").read_text(encoding="utf-8")
    names = [f"{module}.{name}" for module in api.MODULES for name in api.public_names(module)]
    assert [name for name in names if f'id="{name}"' not in text] == []
