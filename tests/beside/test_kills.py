"""Bad records and late rows of runs that are killed between any two steps of a commit: each of them comes once."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.beside.rack import RACK, put
from tests.beside.test_exactly_once import answers, bad_of, late_of, lay, life, script
from tests.durable.lives import POINTS, die_at
from tests.one_life import lived_through
from watersmeet.io.connectors import registry


def live(text: str, folder: Path, ends_at: str | None, after: int) -> None:
    if ends_at is not None:
        die_at(ends_at, after)
    registry.register(RACK)
    life(text, folder)


def lived(text: str, folder: Path, ends_at: str | None = None, after: int = 0) -> bool:
    return lived_through(live, text, folder, ends_at, after)


LINES_OF_A_LIFE = 12


def more_of_partition(folder: Path, lines: list[str]) -> None:
    put(folder / "a", "0", lines)


def more_files(folder: Path, lines: list[str]) -> None:
    """The same lines as a file, with times that are written out."""
    (folder / "files").mkdir(exist_ok=True)
    number = len(list((folder / "files").iterdir()))
    text = "".join(f"{one}\n" for one in lines)
    text = re.sub(r'"ts": (\d+)', lambda us: f'"ts": "{datetime.fromtimestamp(int(us[1]) / 1e6, UTC):%F %T}"', text)
    draft = folder / "files" / f".{number}"
    draft.write_text(text)
    draft.replace(folder / "files" / f"{number:02d}.json")


@pytest.mark.parametrize("kind", ["rack", "files"])
def test_each_is_there_once_over_kills(tmp_path: Path, kind: str) -> None:
    rng = random.Random(kind)
    good, late, bad = lay(tmp_path / "all", rng, 12 * LINES_OF_A_LIFE)
    lines = (tmp_path / "all" / "a" / "0.partition").read_text().splitlines()
    text = script(tmp_path)
    if kind == "files":
        text = text.replace("source = 'rack', folder", "source = 'json', path").replace("/a'", "/files'")
        # Rows are counted from 1 in each file, and an empty line is none.
        begins = {place: place - place % LINES_OF_A_LIFE for place in bad}
        bad = sorted(sum(map(bool, lines[begins[place] : place])) + 1 for place in bad if lines[place])
    died = 0
    for number in range(12):
        part = lines[number * LINES_OF_A_LIFE : (number + 1) * LINES_OF_A_LIFE]
        (more_of_partition if kind == "rack" else more_files)(tmp_path, part)
        died += not lived(text, tmp_path, POINTS[number % len(POINTS)], rng.randrange(2))
    assert died >= 4  # the others came to their end before the point
    assert lived(text, tmp_path)
    assert answers(tmp_path) == good
    assert late_of(tmp_path) == late
    assert bad_of(tmp_path) == bad
