"""Pictures as a page of HTML that needs nothing else, each with its words below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from watersmeet.dataclass import dataclass
from watersmeet.pictures.text import visible

_CSS = """
:root{color-scheme:light dark}
body{margin:0 auto;max-width:90rem;padding:.75rem;font:16px/1.45 system-ui,sans-serif;background:#fff;color:#16202a}
h1{font-size:1.15rem;overflow-wrap:anywhere}
pre{overflow-x:auto}
pre{font-size:.85rem}
@media (prefers-color-scheme:dark){body{background:#10161c;color:#e8edf2}}
""".replace("\n", "")


@dataclass(frozen=True)
class Shown:
    """A picture under its name, with the same as text."""

    name: str
    svg: str
    text: str


def page(title: str, pictures: Iterable[Shown], beside: Sequence[str] = ()) -> str:
    """The whole page. What does not fit is scrolled, so that it can be read on a phone. beside: what is said of all."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(visible(title))}</title><style>{_CSS}</style></head>\n<body>\n"
        + "".join(f"<p>{escape(visible(one))}</p>\n" for one in beside)
        + "".join(f"<h1>{escape(visible(one.name))}</h1>\n{fragment(one.svg, one.text)}\n" for one in pictures)
        + "</body></html>\n"
    )


def fragment(svg: str, text: str) -> str:
    """A picture inside a page, such as a notebook's; a wide one is scrolled, as small text could not be read."""
    shown = "\n".join(map(visible, text.rstrip("\n").split("\n")))
    return f"{scrolled(svg)}\n<details><summary>the same as text</summary><pre>{escape(shown)}</pre></details>"


def scrolled(svg: str) -> str:
    return f'<div style="overflow-x:auto" tabindex="0">{svg.strip()}</div>'
