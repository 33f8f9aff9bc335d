"""A library of kernels is called without Numba, gives what Numba gives, and serves only where it fits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# A kernel of the package, and some of all that can be given and returned.
KERNELS = """
from __future__ import annotations
import numpy as np
from watersmeet.compiling import kernel
from watersmeet.operators.kernels.digits import bit_length
from watersmeet.operators.kernels.rows import disorder

@kernel(inline="always")
def twice(x):
    return x + x

@kernel
def bits(x):
    return bit_length(twice(x))

@kernel
def divided(a, b):
    return a // b

@kernel
def many(whole, real, truth, texts, pair):
    return np.int64(whole) + pair[0][0], real * pair[1], not truth, (texts.shape[0], texts.shape[1])

@kernel
def counted(n):
    made = np.arange(n)
    return made, made[1:] > 1

@kernel
def behind(rows, first):
    return rows[first:]

@kernel
def same(rows):
    return rows

@kernel
def first_above(rows, least):
    for row in rows:
        if row > least:
            return row
    return None

@kernel
def double(rows):
    for i in range(len(rows)):
        rows[i] *= 2

def shown(what):
    if isinstance(what, tuple):
        return tuple(map(shown, what))
    return (what.dtype.str, what.tolist(), what.flags.writeable) if isinstance(what, np.ndarray) else what

def results():
    texts = np.zeros((3, 4), np.uint8)
    whole = np.array([5, 3, 9])
    still = whole.copy()
    still.flags.writeable = False
    yield disorder(whole, 4)
    yield disorder(whole[::2], np.int64(4)), disorder(still, 4)
    yield bits(5), bits(np.int64(2**40))
    for truth, real in ((True, 1.5), (np.bool_(False), np.float64(-0.5))):
        yield many(7, real, truth, texts, (whole, 2.0))
    yield many(np.int32(7), np.float32(1.5), True, texts[:, 1:3], (still, 2.0))
    yield divided(7, 2), divided(7.0, 2.0), divided(np.uint64(7), np.uint64(2))
    yield shown(counted(3)), shown(behind(np.arange(5), 2)), shown(behind(np.linspace(0, 1, 5), 1))
    assert same(whole) is whole
    part = behind(np.full(1000, 7), 990)  # all that holds it
    assert [np.full(1000, 9).sum(), part.tolist()] == [9000, [7] * 10]
    yield first_above(whole, 4), first_above(whole, 99)
    yield double(whole), whole.tolist()
    try:
        divided(1, 0)
    except ZeroDivisionError as error:
        yield str(error)
"""
BUILD = """
from pathlib import Path
import kernels_of_a_test
from watersmeet.compiling.build import build
from watersmeet.compiling.signatures import signature_of
print(*kernels_of_a_test.results(), sep="\\n")
kernels = [one for one in vars(kernels_of_a_test).values() if hasattr(one, "overloads")]
named = [(f"{{one.__module__}}.{{one.__name__}}", one) for one in kernels]
build(Path({into!r}), [signature_of(name, types) for name, one in named for types in one.overloads])
"""
LOADED = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
from watersmeet.compiling import library
spec = spec_from_file_location(library.NAME, {file!r})
sys.modules[library.NAME] = module_from_spec(spec)
spec.loader.exec_module(sys.modules[library.NAME])
"""


def ran(code: str, **given: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "WATERSMEET_KERNELS"}
    environment = {**kept, "PYTHONPATH": str(ROOT / "src"), **given}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)


def said(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@dataclass(frozen=True)
class Made:
    """A library, and what Numba said while it was made."""

    file: str
    path: str
    told: str

    def ran(self, code: str, before: str = "", **given: str) -> subprocess.CompletedProcess[str]:
        whole = f"{LOADED.format(file=self.file)}{before}\nfrom kernels_of_a_test import *\n{code}"
        return ran(whole, **{"PYTHONPATH": self.path, **given})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        pytest.skip("making a library needs a C compiler")
    folder = tmp_path_factory.mktemp("library")
    (folder / "kernels_of_a_test.py").write_text(KERNELS)
    path = f"{ROOT / 'src'}{os.pathsep}{folder}"
    told = said(ran(BUILD.format(into=str(folder / "made")), WATERSMEET_KERNELS="build", PYTHONPATH=path))
    (file,) = (folder / "made").iterdir()
    return Made(str(file), path, told)


WITHOUT_NUMBA = "sys.modules['numba'] = sys.modules['llvmlite'] = None\n"


def test_it_gives_what_numba_gives_without_it(made: Made) -> None:
    assert said(made.ran("print(*results(), sep='\\n')", WITHOUT_NUMBA)) == made.told


def test_other_types_are_compiled_here(made: Made) -> None:
    asked = "print(disorder(np.array([5, 3, 9], np.int16), 4), bits(np.uint8(5)), 'numba' in sys.modules)"
    assert said(made.ran(asked)) == "(2, 9) 4 True\n"


def test_other_types_without_numba_are_refused_with_what_to_install(made: Made) -> None:
    done = made.ran("disorder(np.array([5, 3, 9], np.int16), 4)", WITHOUT_NUMBA)
    assert "SetupError: kernel disorder has to be compiled here, as it was not compiled for these types" in done.stderr
    assert "hint: pip install 'watersmeet[compile]'" in done.stderr


def test_read_only_arrays_are_taken_where_nothing_is_written(made: Made) -> None:
    """Neither of them was called with one while the library was made."""
    still = "still = np.array([1, 5])\nstill.flags.writeable = False\n"
    assert said(made.ran(f"{still}print(first_above(still, 4))", WITHOUT_NUMBA)) == "5\n"
    done = made.ran(f"{still}double(still)", WITHOUT_NUMBA)
    assert "SetupError: kernel double has to be compiled here" in done.stderr


@pytest.mark.parametrize(
    ("before", "given", "words"),
    [
        ("library.stamp_of = lambda sources: 'another'\n", {}, "came with watersmeet are of other sources"),
        (
            "library.import_module(library.NAME).runs_here = lambda: False\n",
            {},
            "are for processors of the kind x86-64-v3",
        ),
        ("", {"WATERSMEET_KERNELS": "numba"}, "WATERSMEET_KERNELS is numba"),
    ],
)
def test_where_it_does_not_fit_kernels_are_compiled_and_why_is_known(
    made: Made, before: str, given: dict[str, str], words: str
) -> None:
    asked = "print(library.library(), library.why_not(), disorder(np.array([5, 3, 9]), 4))"
    done = made.ran(asked, before, **given)
    told = done.stdout
    assert ("kernel_library: kernels are compiled by Numba" in done.stderr) == (not given)
    assert told.startswith("None ")
    assert words in told
    assert told.endswith("(2, 9)\n")


def test_a_change_of_a_source_makes_it_another(made: Made, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    rows = tmp_path / "src/watersmeet/operators/kernels/rows.py"
    rows.write_text(f"{rows.read_text()}\n# changed\n")
    asked = LOADED.format(file=made.file) + "print(library.why_not())"
    assert said(ran(asked)) == "None\n"
    assert "are of other sources" in said(ran(asked, PYTHONPATH=str(tmp_path / "src")))
