"""Warnings: few classes, each with codes; both can be filtered by, and the page names every one."""

from __future__ import annotations

import ast
import pickle
import re
import warnings
from pathlib import Path

import pytest

import watersmeet as wm
from watersmeet.runtime.left_out import LEFT_OUT
from watersmeet.warning import ConnectorWarning, DataWarning, PlanWarning, StateWarning, WatersmeetWarning, warn

ROOT = Path(__file__).parents[2]
CLASSES = (DataWarning, PlanWarning, ConnectorWarning, StateWarning)
CODES = {(one.__name__, code) for one in CLASSES for code in one.CODES}
ROW = re.compile(r"^\| (?:`(\w+Warning)`)? ?\| `(\w+)` \|", re.MULTILINE)


def made() -> set[tuple[str, str]]:
    """The warnings that some line of the package makes, by class and code."""
    found = {("DataWarning", one.code) for one in LEFT_OUT}
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    for text in (one for one in texts if "Warning(" in one):
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id.endswith("Warning"):
                codes = [one.value for one in call.args[:1] if isinstance(one, ast.Constant)]
                found |= {(call.func.id, str(code)) for code in codes}
    return found


def documented() -> set[tuple[str, str]]:
    found, last = set(), ""
    for name, code in ROW.findall((ROOT / "docs" / "python.md").read_text(encoding="utf-8")):
        last = name or last
        found.add((last, code))
    return found


def test_the_page_about_python_has_every_code_under_its_class() -> None:
    assert documented() == CODES


def test_every_code_is_made_somewhere_and_expected_by_a_test() -> None:
    assert made() == CODES
    here = Path(__file__)
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py") if path != here]
    expected = {code for text in texts for code in re.findall(r'(?<=["(:])\w+(?=[":])', text)}
    assert [code for _, code in sorted(CODES) if code not in expected] == []


def test_no_code_is_of_two_classes_or_the_beginning_of_another() -> None:
    codes = [code for one in CLASSES for code in one.CODES]
    assert [(a, b) for a in codes for b in codes if a is not b and b.startswith(a)] == []


def test_a_filter_names_a_class_or_a_code() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", "late_rows")
        warnings.filterwarnings("ignore", category=wm.PlanWarning)
        warn(DataWarning("late_rows", "3 rows came too late"))
        warn(PlanWarning("cross_join", "every row meets all others"))
        warn(DataWarning("bad_rows", "1 record cannot be read"))
    (one,) = caught
    assert isinstance(one.message, WatersmeetWarning)
    assert (one.message.code, one.message.message) == ("bad_rows", "1 record cannot be read")
    assert (str(one.message), one.filename) == ("bad_rows: 1 record cannot be read", __file__)


def test_a_warning_can_be_sent_to_another_process() -> None:
    one = pickle.loads(pickle.dumps(StateWarning("cold_state", "no room")))
    assert (type(one), one.code, one.message) == (StateWarning, "cold_state", "no room")


def test_a_code_belongs_to_its_class() -> None:
    with pytest.raises(ValueError, match="PlanWarning has no code 'late_rows'"):
        PlanWarning("late_rows", "")
