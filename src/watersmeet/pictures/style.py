"""How pictures look: one set of colours, for light and dark."""

from __future__ import annotations

from watersmeet.pictures.text import SIZE

# Names of our own, as the style of a picture inside a page is that of the whole page.
CSS = f"""
.wm-picture{{--wm-ground:#fff;--wm-raised:#f4f6f8;--wm-line:#b9c3cd;--wm-text:#16202a;--wm-quiet:#52606d;
--wm-one:#0b62a8;--wm-two:#a84300;--wm-bad:#b00020;--wm-good:#1b6e3c}}
@media (prefers-color-scheme:dark){{.wm-picture{{--wm-ground:#10161c;--wm-raised:#1a222b;--wm-line:#4a5866;
--wm-text:#e8edf2;--wm-quiet:#a3b1bf;--wm-one:#6bb5f5;--wm-two:#f0a066;--wm-bad:#ff8a95;--wm-good:#7bd3a0}}}}
.wm-picture text{{font:{SIZE:g}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
fill:var(--wm-text);white-space:pre}}
.wm-picture .wm-title{{font-size:{SIZE + 1:g}px;font-weight:700}}
.wm-picture .wm-quiet{{fill:var(--wm-quiet)}}
.wm-picture .wm-ground{{fill:var(--wm-ground)}}
.wm-picture .wm-box{{fill:var(--wm-raised);stroke:var(--wm-line)}}
.wm-picture .wm-edge{{fill:none;stroke:var(--wm-quiet);stroke-width:1.2}}
.wm-picture .wm-head{{fill:var(--wm-quiet)}}
.wm-picture .wm-mark{{fill:var(--wm-quiet)}}
.wm-picture .wm-mark-stream,.wm-picture .wm-mark-table{{fill:var(--wm-one)}}
.wm-picture .wm-mark-join{{fill:var(--wm-two)}}
""".strip().replace("\n", "")
