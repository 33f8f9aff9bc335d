"""Engines in Java: their jars by Maven, our harnesses by javac, one process for each run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from benchmarks.rivals.load import Outcome, Sending

JAVA = Path(__file__).parent / "java"
JARS = platformdirs.user_cache_path("watersmeet") / "rivals"
BUILD = Path(__file__).parents[2] / "build" / "rivals"
DOWNLOAD_S = 300.0
START_S = 180.0  # within which Java and an engine have started, beside the rows they are sent
OPENED = ("java.base/java.util=ALL-UNNAMED", "java.base/java.lang=ALL-UNNAMED")
JAVA_COMMAND = ["java", *(f"--add-opens={one}" for one in OPENED), "-Xmx2g"]


class MissingError(Exception):
    """Why an engine cannot be measured here, in one sentence."""


class FailedError(Exception):
    """Why a run gave no figures."""


def fetched(name: str) -> str:
    """The jars of an engine as a class path; downloaded once, and again if what is asked for has changed."""
    folder, wanted = JARS / name, (JAVA / f"{name}.xml").read_text()
    have = folder / "pom.xml"
    if not have.exists() or have.read_text() != wanted:
        _need("mvn", "Maven, which downloads it,")
        print(f"{name} is downloaded by Maven", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = ["mvn", "-q", "-B", "-f", str(JAVA / f"{name}.xml"), "dependency:copy-dependencies"]
        try:
            subprocess.run(
                [*command, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"],
                check=True,
                capture_output=True,
                text=True,
                timeout=DOWNLOAD_S,
            )
        except subprocess.TimeoutExpired:
            raise MissingError(f"Maven did not download it in {DOWNLOAD_S:.0f} s") from None
        except subprocess.CalledProcessError as error:
            raise MissingError(f"Maven could not download it: {first_error(error.stdout + error.stderr)}") from None
        have.write_text(wanted)
    return f"{folder}{os.sep}*"


def hadoop() -> list[str]:
    """What Flink reads Parquet with beside its own; PySpark brings it."""
    try:
        import pyspark
    except ImportError:
        raise MissingError("PySpark, which brings Hadoop's classes for Parquet, is not installed") from None
    jars = Path(pyspark.__file__).parent / "jars"
    return [str(jar) for name in ("hadoop-client-*", "zstd-jni*") for jar in sorted(jars.glob(f"{name}.jar"))]


def compiled(harness: str, sources: Sequence[str | Path], class_path: str) -> Path:
    """A folder of classes."""
    _need("java", "Java")
    _need("javac", "a JDK")
    folder = BUILD / f"{harness}-classes"
    folder.mkdir(parents=True, exist_ok=True)
    command = ["javac", "-nowarn", "-cp", class_path, "-d", str(folder), *(str(JAVA / one) for one in sources)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise MissingError(f"its harness does not compile: {first_error(done.stderr)}")
    return folder


def run(main: str, sql: str, class_path: str, sending: Sending, folder: Path) -> Outcome:
    """What a harness tells in its last line."""
    numbers = (len(sending.query.streams), sending.rate, sending.warm_s, sending.seconds, sending.grace_s)
    keys = sending.write_keys(folder)
    command = [*JAVA_COMMAND, "-cp", class_path, main, sql, str(keys), *map(str, numbers), str(folder)]
    most = START_S + sending.warm_s + sending.seconds + sending.grace_s
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=most, cwd=folder)
    except subprocess.TimeoutExpired:
        raise FailedError(f"{main} had not ended after {most:.0f} s") from None
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise FailedError(f"{main} failed: {first_error(done.stderr)}")
    return Outcome(**json.loads(lines[-1]))


def _need(command: str, what: str) -> None:
    if shutil.which(command) is None:
        raise MissingError(f"{what} is missing: there is no {command} on the path")


def first_error(text: str) -> str:
    """What went wrong: of Java the first line that says so, of Python the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        return ([line for line in lines if "Error: " in line] or lines)[-1]
    errors = [line for line in lines if "ERROR" in line or "error:" in line or "Exception" in line]
    return (errors or lines or ["it said nothing"])[0]
