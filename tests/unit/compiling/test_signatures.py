"""The list of what wheels bring compiled is in order; tests that call what it has not are refused, or write it down."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from watersmeet.compiling import signatures

ROOT = Path(__file__).parents[3]
CALL = """
import numpy as np
from watersmeet.compiling import signatures
from watersmeet.operators.kernels.rows import disorder
signatures.LISTED = signatures.Path({listed!r})
print(disorder(np.array([5, 3, 9], np.int16), np.int8(4)))
"""
ASKED = "watersmeet.operators.kernels.rows.disorder(int16[::1], int8)"


def takes_as_many(signature: str) -> bool:
    try:
        kernel, arguments = signatures.read(signature)
    except (AttributeError, ModuleNotFoundError):
        return False
    return len(inspect.signature(kernel.py_func).parameters) == len(arguments)


def test_the_list_is_in_order_and_of_kernels_that_are_there() -> None:
    listed = signatures.listed()
    if "WATERSMEET_REWRITE" in os.environ:
        kept = sorted({one for one in listed if takes_as_many(one)})
        signatures.LISTED.write_text("".join(f"{one}\n" for one in kept), encoding="utf-8")
        return
    assert [one for one in listed if not takes_as_many(one)] == []
    assert listed == sorted(set(listed))
    for one in listed:
        assert signatures.signature_of(one.partition("(")[0], signatures.read(one)[1]) == one


@pytest.mark.parametrize("choice", ["listed", "list"])
def test_what_is_not_in_the_list_is_refused_or_added(tmp_path: Path, choice: str) -> None:
    listed = tmp_path / "signatures.txt"
    shutil.copy(signatures.LISTED, listed)
    given = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "WATERSMEET_KERNELS": choice}
    code = CALL.format(listed=str(listed))
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=300)
    if choice == "listed":
        assert f"SetupError: {ASKED} is not in signatures.txt" in done.stderr
    else:
        assert (done.stdout, done.stderr) == ("(2, 9)\n", "")
    added = listed.read_text().splitlines()[len(signatures.listed()) :]
    assert added == ([] if choice == "listed" else [ASKED])
