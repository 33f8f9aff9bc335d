"""Pictures in a real Chromium: with the fonts of a machine, too, text stays inside what is drawn around it.

Needs Playwright for Python and a Chromium, as the tests of the page do.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from tests.pictures.of_docs import PICTURES, ROOT
from tests.plans.test_explain import CATALOG, QUERIES
from watersmeet.pictures.draw_tree import tree_svg
from watersmeet.pictures.page import Shown, page
from watersmeet.pictures.tree import NodeText
from watersmeet.session import Query
from watersmeet.sql import bind

api = pytest.importorskip("playwright.sync_api", reason="pictures are looked at through Playwright")
CHROMIUM = os.environ.get("WATERSMEET_CHROMIUM") or shutil.which("chromium")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")]

STRANGE = ["流れ" * 9, "Größe → ∞", "\ufdfd\ufdfd", "😀" * 12, "WWWWWWWWMMMMMMMM" * 3, "नमस्ते दुनिया" * 3, "العربية" * 6]
# All text that reaches out of its picture, or out of the box that it stands in.
OUTSIDE = """() => [...document.querySelectorAll('svg.wm-picture')].flatMap((svg) => {
  const whole = svg.viewBox.baseVal;
  const out = (text, x, y, right, bottom) => {
    const b = text.getBBox();
    return b.x < x - 1 || b.y < y - 3 || b.x + b.width > right + 1 || b.y + b.height > bottom + 3;
  };
  return [...svg.querySelectorAll('text')].filter((text) => {
    const box = text.parentNode.querySelector(':scope > rect.wm-box');
    if (box === null) return out(text, 0, 0, whole.width, whole.height);
    const { x, y, width, height } = box.getBBox();
    return out(text, x, y, x + width, y + height);
  }).map((text) => text.textContent);
})"""


def test_text_stays_inside_with_real_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    svgs = [Query(bind(path.read_text(), CATALOG)).explain(format="svg") for path in QUERIES]
    svgs += [make() for make in PICTURES.values()]
    svgs.append(tree_svg("strange", NodeText("join", STRANGE[0], tuple(STRANGE), above=STRANGE[1], below=STRANGE[2])))
    html = page("all", [Shown(str(number), svg, "") for number, svg in enumerate(svgs)])
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for width, scheme in ((1200, "light"), (360, "dark")):
            assert _outside(browser, html, width, scheme) == []
        browser.close()


def _outside(browser: Any, html: str, width: int, scheme: str) -> Any:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    looked = context.new_page()
    looked.set_content(html)
    # The page itself is no wider than the screen: pictures scroll inside it.
    assert looked.evaluate("document.documentElement.scrollWidth") == width
    ground = looked.evaluate("getComputedStyle(document.querySelector('.wm-ground')).fill")
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(16, 22, 28)")
    return looked.evaluate(OUTSIDE)
