"""The commands of docs/cluster.md, in the order of the page, with this cluster in place of the one it speaks of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cluster.standalone import Cluster
from tests.docs.test_shown import ROOT, blocks
from tests.spark.harness import SHORT_LIVED

PAGE = ROOT / "docs" / "cluster.md"
LONG_S = 900


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, cluster: Cluster) -> Path:
    """After all that the page says."""
    folder = tmp_path_factory.mktemp("page")
    here = {
        "/shared": str(folder / "shared"),
        "spark://master:7077": cluster.master,
        "python3.11": cluster.python.name,
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment |= {"SPARK_SUBMIT_OPTS": SHORT_LIVED, "SPARK_LOCAL_IP": "127.0.0.1"}
    for language, text in blocks(PAGE):
        for said, meant in here.items():
            text = text.replace(said, meant)
        if language in ("sql", "python"):
            name = text.split("\n", 1)[0].split()[-1]
            (folder / name).write_text(text)
        elif language == "sh":
            ran = subprocess.run(
                ["bash", "-e", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=LONG_S
            )
            assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-3000:]
    return folder


def test_a_script_is_answered(folder: Path) -> None:
    assert pq.read_table(folder / "shared" / "travels")["car"].to_pylist() == [2]


def test_a_program_is_answered(folder: Path) -> None:
    assert pq.read_table(folder / "shared" / "cars")["car"].to_pylist() == [2]
