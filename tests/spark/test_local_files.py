"""Files of this machine are written without a process for each, and as before in every other way."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

from watersmeet.hosts.spark.launching import local_files
from watersmeet.hosts.spark.launching.local_files.build import MADE_OF, source_sum


def test_the_jar_is_made_of_the_source_beside_it() -> None:
    with zipfile.ZipFile(local_files.JAR) as jar:
        assert jar.read(MADE_OF).decode() == source_sum(), "run `make java`"


def test_a_class_path_of_the_users_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    ours, theirs = SparkConf(loadDefaults=False), SparkConf(loadDefaults=False)
    theirs.set(local_files.CLASS_PATH, "/opt/my.jar")
    for conf in (ours, theirs):
        local_files.bring(conf)
    assert ours.get(local_files.CLASS_PATH) == str(local_files.JAR)
    assert theirs.get(local_files.CLASS_PATH) == "/opt/my.jar"
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    told = SparkConf(loadDefaults=False)
    local_files.bring(told)
    assert not told.contains(local_files.CLASS_PATH)


@pytest.mark.spark
def test_sparks_java_writes_renames_and_links_files_as_hadoop_does(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark.sparkContext._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    fs = jvm.org.apache.hadoop.fs
    assert fs.FileSystem.getLocal(conf).getClass().getName() == "watersmeet.LocalFiles$Checked"
    context = fs.FileContext.getFileContext(jvm.java.net.URI("file:///"), conf)
    assert context.getDefaultFileSystem().getClass().getName() == "watersmeet.LocalFiles$CheckedContext"

    def at(name: str) -> Any:
        return fs.Path(f"file:{tmp_path}/{name}")

    written = fs.FileSystem.getLocal(conf).create(at("a"))
    written.writeBytes("rows")
    written.close()
    assert (tmp_path / "a").read_bytes() == b"rows"
    assert (tmp_path / ".a.crc").exists()
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~mask
    permission = jvm.org.apache.hadoop.fs.permission.FsPermission
    for mode in (0o640, 0o1777, 0o600):  # one with the sticky bit, which Java cannot set
        context.setPermission(at("a"), permission(format(mode, "o")))
        assert (tmp_path / "a").stat().st_mode & 0o7777 == mode
    none = spark.sparkContext._gateway.new_array(fs.Options.Rename, 0)  # type: ignore[union-attr]
    context.rename(at("a"), at("b"), none)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".b.crc", "b"]
    (tmp_path / "link").symlink_to(tmp_path / "b")
    for name in ("b", "link"):
        assert context.getFileLinkStatus(at(name)).getLen() == len("rows")
    with pytest.raises(Exception, match="FileNotFoundException"):
        context.getFileLinkStatus(at("gone"))
