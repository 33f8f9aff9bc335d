"""Hadoop's own way into S3, by which Spark writes a checkpoint there: its jars, from Maven Central, fetched once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest

from watersmeet.private_folders import cache_folders

_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>watersmeet</groupId><artifactId>stores</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>{version}</version>
      <exclusions><exclusion>
        <groupId>org.apache.hadoop</groupId><artifactId>hadoop-common</artifactId>
      </exclusion></exclusions>
    </dependency>
  </dependencies>
</project>
"""


def settings(endpoint: str) -> dict[str, str]:
    """Of Spark, for a local server: moto answers neither over TLS nor to those who ask whether they may go on."""
    s3a = {
        "endpoint": endpoint,
        "endpoint.region": "us-east-1",
        "access.key": "key",
        "secret.key": "hush-hush",
        "path.style.access": "true",
        "connection.expect.continue": "false",
        "optimized.copy.from.local.enabled": "false",
    }
    return {"spark.driver.extraClassPath": f"{_jars()}/*"} | {f"spark.hadoop.fs.s3a.{k}": v for k, v in s3a.items()}


def _jars() -> Path:
    """As old as the Hadoop that Spark has brought."""
    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.rpartition("-")[2]
    folder = next(cache_folders())[0] / f"hadoop-aws-{version}"
    if not any(folder.glob("hadoop-aws-*.jar")):
        maven = shutil.which("mvn")
        if maven is None:
            pytest.skip("needs hadoop-aws, and mvn, which would fetch it, is not found")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(_POM.format(version=version), encoding="utf-8")
        command = [maven, "-q", "-B", _COPY, f"-DoutputDirectory={folder}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1800)
        if done.returncode:
            pytest.skip(f"hadoop-aws {version} could not be fetched: {done.stdout[-300:]}")
    return folder
