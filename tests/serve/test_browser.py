"""The page in a real Chromium: drawn, updating, after a restart, with many groups, with hostile names, beside runs.

Needs Playwright for Python and a Chromium, Debian's for instance; WATERSMEET_CHROMIUM says where another one is. With
WATERSMEET_REWRITE=1 the pictures of the documentation are made anew. WATERSMEET_AXE says where axe-core's script is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.docs.test_shown import ROOT
from tests.serve.serving import Client, Life, row, serving
from tests.serve.test_failures import SCRIPT as FAILING
from tests.serve.test_failures import fails

api = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is not installed: pip install 'watersmeet[browser]'"
)
CHROMIUM = os.environ.get("WATERSMEET_CHROMIUM") or shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no Chromium: install Debian's package, or name one in WATERSMEET_CHROMIUM"
    ),
]

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


def test_a_query_that_fails_says_so(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, FAILING) as client, opened(browser, client.url) as page:
        shows(page, "#state", "running")
        number = fails(client)
        shows(page, "#state", "query 2 failed; running")
        api.expect(page.locator("#failure")).to_be_hidden()
        page.get_by_role("button", name="query 2").click()
        shows(page, "#failure", f"'query 2' has failed at batch {number}: ")
        shows(page, "#failure", f"--skip-batch 'query 2:{number}'")
        client.posted("a", [row(5, 5, 5), row(6, 6, 6)])
        page.get_by_role("button", name="sums").click()
        shows(page, "#rows", "5")


BOUNDED = """
CREATE STREAM a (k BIGINT, v DOUBLE, ts TIMESTAMP) WITH (time = 'ts');
CREATE STREAM b (k BIGINT, w VARCHAR, ts TIMESTAMP) WITH (time = 'ts');
SELECT a.k, a.v, b.w FROM a, b WHERE a.k = b.k WINDOW = 1 HOUR OPTIONS (memory = '20 rows');
"""


def test_what_each_window_keeps_and_the_recall_are_there(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, BOUNDED) as client:
        fed(client, range(4))
        with opened(browser, client.url) as page:
            shows(page, "#windows", "window of")
            told = client.get("/queries/query_1").json()["metrics"]
            assert told["shed_rows"] > 0
            for name, rows in told["window_rows_by_input"].items():
                shows(page, f"#windows tr:has(td:text-is('{name}'))", str(rows))
            shows(page, "#now div:has(dt:text-is('Recall'))", f"{100 * told['recall']:.1f} %")


SWITCHING = """
CREATE STREAM a (k BIGINT, j BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = '1/s', distinct = 'k: 10, j: 10');
CREATE STREAM b (k BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = '1000/s', distinct = 'k: 2');
CREATE STREAM c (j BIGINT, ts TIMESTAMP) WITH (time = 'ts', rate = '1/s', distinct = 'j: 1000');
SELECT a.k, a.j FROM a, b, c WHERE a.k = b.k AND a.j = c.j WINDOW = 10 SECONDS;
"""


def test_a_change_of_the_join_order_is_told_with_its_reason(browser: Any, tmp_path: Path) -> None:
    with serving(tmp_path, SWITCHING) as client:
        # Quite other than was declared: many rows of c for each of a, hardly any of b.
        for second in range(40):
            at = row(0, 0, second)["ts"]
            client.posted("a", [{"k": n, "j": n % 2, "ts": at} for n in range(50)])
            client.posted("b", [{"k": second, "ts": at}])
            client.posted("c", [{"j": n % 3, "ts": at} for n in range(200)])
        assert client.get("/queries/query_1").json()["metrics"]["plan_switches"] > 0
        with opened(browser, client.url) as page:
            shows(page, "#switches", "Changes of the join order")
            shows(page, "#switches", "→")
            shows(page, "#switches", "of a core before and")


def test_the_rules_of_axe_are_kept(browser: Any, tmp_path: Path) -> None:
    script = Path(os.environ.get("WATERSMEET_AXE", "nowhere"))
    if not script.is_file():
        pytest.skip("axe-core is not here: npm brings it, and WATERSMEET_AXE says where it is")
    with serving(tmp_path) as client:
        fed(client, range(3))
        for scheme in ("light", "dark"):
            with opened(browser, client.url, width=360, scheme=scheme) as page:
                shows(page, "#rows", "49")
                page.evaluate(script.read_text())
                found = page.evaluate("axe.run()")["violations"]
                assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == []


@pytest.mark.spark
def test_a_run_on_spark_is_followed(browser: Any, tmp_path: Path) -> None:
    from tests.spark.harness import quiet_session
    from tests.spark.test_run import STREAMS, arrive
    from watersmeet.cli.view import Page
    from watersmeet.hosts.spark.host import SparkHost
    from watersmeet.hosts.spark.run import SparkRun
    from watersmeet.runtime.run_settings import RunSettings
    from watersmeet.runtime.watched import Board

    for number in range(3):
        arrive(tmp_path, number)
    script = (
        STREAMS.replace("path='", f"path='{tmp_path}/")
        + f"""
        CREATE SINK pairs WITH (sink='parquet', path='{tmp_path}/pairs') AS
        SELECT a.k, a.ts FROM a, b WHERE a.k = b.k WINDOW = 5 SECONDS;
    """
    )
    spark = quiet_session("local[2]", tmp_path / "spark")
    try:
        run = SparkRun(spark, script, RunSettings(available_now=True, buckets=1))
        boards = {job.name: Board(job.plan, adds_up=False) for job in run.jobs}
        shown = Page("0", run.jobs, boards, SparkHost(spark, run.buckets))
        shown.open()
        running = Thread(target=run.run, args=(None, boards), daemon=True)
        try:
            with opened(browser, shown.url) as page:
                shows(page, "#state", "waiting")
                running.start()
                api.expect(page.locator("#state")).to_contain_text("ended", timeout=180_000)
                shows(page, "#now div:has(dt:text-is('Rows in'))", "120")
                shows(page, "#windows", "window of")
                shows(page, "#rows-note", "rows, the newest first")
                assert page.locator("#rows tbody tr").count() > 5
                shows(page, "#plan", "/s")
                shows(page, "#streams", "60")
                picture(page, "view_spark.png")
        finally:
            running.join(60)
            shown.close()
    finally:
        spark.stop()


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
