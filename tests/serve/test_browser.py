"""The page in a real Chromium: drawn, updating, after a restart, with many groups, with names that are markup.

Needs Playwright for Python and a Chromium, Debian's for instance; WATERSMEET_CHROMIUM says where another one is. With
WATERSMEET_REWRITE=1 the pictures of the documentation are made anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.serve.serving import Client, Life, row, serving
from tests.unit.test_docs import ROOT

api = pytest.importorskip("playwright.sync_api", reason="the page is tested through Playwright")
CHROMIUM = os.environ.get("WATERSMEET_CHROMIUM") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")

HOSTILE = """
CREATE STREAM a (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
CREATE SINK "<img src=x onerror=alert(1)>" WITH (sink = 'parquet', path = '{folder}/groups') AS
  SELECT k AS "<script>alert(2)</script>", v AS "__proto__", '<b>bold</b>' AS "constructor" FROM a;
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, url: str, width: int = 1000, scheme: str = "light") -> Iterator[Any]:
    """A page that may say nothing wrong, ask nobody else and open no dialog."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda one: None if one.url.startswith((url, "data:")) else wrong.append(one.url))
    page.goto(url)
    try:
        yield page
        assert wrong == []
    finally:
        context.close()


def shows(page: Any, selector: str, text: str) -> None:
    api.expect(page.locator(selector)).to_contain_text(text, timeout=15_000)


def fed(client: Client, seconds: range, keys: int = 50) -> None:
    for second in seconds:
        client.posted("a", [row(k, k / 10 + second, second) for k in range(keys)])
        client.posted("b", [{"k": k, "w": f"w{second}", "ts": row(0, 0, second)["ts"]} for k in range(0, keys, 7)])


def test_the_page_draws_and_follows(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        fed(client, range(3))
        with opened(browser, client.url) as page:
            shows(page, "#state", "running")
            shows(page, "#now", "Rows in")
            assert page.locator("#plots canvas").count() == 6
            shows(page, "#rows", "49")
            shows(page, "#plan", "group by")
            before = page.locator("#now").inner_text()
            fed(client, range(3, 6))
            page.wait_for_function("text => document.getElementById('now').innerText !== text", arg=before)
            # With keys alone: the next query is one step away, and is told to be the one that is shown.
            page.locator("#queries button").first.focus()
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            shows(page, "#name", "query 2")
            assert page.locator("#queries [aria-current=true]").inner_text() == "query 2"
            shows(page, "#rows", "w5")
            client.posted("b", [{"k": 3, "w": "as it comes", "ts": row(0, 0, 6)["ts"]}])
            shows(page, "#rows", "as it comes")
            shows(page, "#plan", "stream b")
            picture(page, "serve_page.png")


def test_the_page_fits_a_phone_and_reads_without_eyes(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        fed(client, range(3))
        with opened(browser, client.url, width=360, scheme="dark") as page:
            shows(page, "#rows", "49")
            assert page.evaluate("document.documentElement.scrollWidth") == 360
            for label in page.locator("#plots figure").all():
                assert "now" in (label.get_attribute("aria-label") or "")
            assert page.get_by_role("region", name="Plan").get_by_role("img").count() == 1
            assert page.get_by_role("navigation", name="Queries").get_by_role("button").count() == 3
            ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground == "rgb(16, 22, 28)"
            picture(page, "serve_page_phone.png")


def test_a_thousand_groups_are_cut_and_counted(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        fed(client, range(2), keys=1_200)
        with opened(browser, client.url) as page:
            shows(page, "#rows-note", "the first 200 of 1200 rows")
            assert page.locator("#rows tbody tr").count() == 200


def test_names_that_are_markup_stay_names(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, HOSTILE) as client:
        client.posted("a", [row(1, 2, 3)])
        with opened(browser, client.url) as page:
            shows(page, "#name", "<img src=x onerror=alert(1)>")
            shows(page, "#rows thead", "<script>alert(2)</script>")
            assert page.locator("#rows tbody td").all_inner_texts() == ["1", "2", "<b>bold</b>"]
            assert page.locator("main script, main img, main b").count() == 0


def test_the_page_goes_on_after_a_restart(browser: Any, tmp_path: Path) -> None:
    life = Life(tmp_path)
    fed(life.client, range(3))
    with opened(browser, life.client.url) as page:
        shows(page, "#state", "running")
        life.kill()
        shows(page, "#state", "does not answer")
        again = Life(tmp_path, port=life.port)
        shows(page, "#state", "running")
        fed(again.client, range(3, 5))
        shows(page, "#rows", "49")
        assert again.terminate() == 0


def test_a_token_is_asked_for(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, token="sesame") as client, opened(browser, client.url) as page:
        shows(page, "#state", "a token is needed")
        page.get_by_label("This server needs its token").fill("sesame")
        page.keyboard.press("Enter")
        shows(page, "#state", "running")
        shows(page, "#name", "groups")


def picture(page: Any, name: str) -> None:
    if os.environ.get("WATERSMEET_REWRITE"):
        (ROOT / "docs" / "pictures").mkdir(exist_ok=True)
        page.screenshot(path=ROOT / "docs" / "pictures" / name, full_page=True)
