"""The classes of Spark as Java has them once they are loaded, in a file, so that later starts load them faster.

Java makes such an archive (class data sharing) when it ends, from what it has loaded by then. After a first start a
process of its own does that, in the background and at the lowest priority: it starts Spark, runs a small join, and
ends. The archive lies in the user's private cache, named after Java, Spark and the class path. Java itself checks
whether it fits and does without if it does not; so does everything here: no failure is more than a slow start.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyspark

from watersmeet.errors import UnsafeFolderError
from watersmeet.hosts.spark.launching import local_files
from watersmeet.hosts.spark.launching.java import cache_folders
from watersmeet.private_folders import PrivateFolder, private_folder

VARIABLE = "WATERSMEET_CLASS_ARCHIVE"  # "off" in the environment,
SETTING = "spark.watersmeet.classArchive"  # or "false" as a setting of Spark, turns it off
READY = "ready"  # in the environment: one that is there is used, and none is made
FORMAT = 1  # to be raised when other classes are to be in it
MOST_ARCHIVES, MOST_BYTES, FREE_BYTES = 2, 400 << 20, 2 << 30
AGAIN_SECONDS = 7 * 86_400  # before what did not succeed is tried once more
TRAINING = "watersmeet.hosts.spark.class_training"  # makes one, in a process of its own
# Leaves what Java has loaded in the first file; the second is the base, if Java comes without one.
Train = Callable[[Path, Path], None]
_log = logging.getLogger(__name__)


def is_wanted(setting: str | None, environ: Mapping[str, str] = os.environ) -> bool:
    """
    >>> is_wanted(None, {}), is_wanted("false", {}), is_wanted(None, {VARIABLE: "off"})
    (True, False, False)
    """
    off = ("off", "false", "no", "0")
    return environ.get(VARIABLE, "").lower() not in off and (setting or "").lower() not in off


class ClassArchive:
    """The archive of one Java and one Spark, whether it is there or not."""

    def __init__(self, folder: Path, name: str, chosen_by: str) -> None:
        self.folder = folder
        self.name = name
        self.chosen_by = chosen_by

    @property
    def path(self) -> Path:
        return self.folder / self.name

    @staticmethod
    def of_this_machine() -> ClassArchive | None:
        """That of Java and Spark as they are found here."""
        return ClassArchive.of(Path(os.environ["JAVA_HOME"]), Path(pyspark.__file__).with_name("jars"))

    @staticmethod
    def of(java_home: Path, jars: Path, environ: Mapping[str, str] = os.environ) -> ClassArchive | None:
        """None where no private folder can be had."""
        name = f"spark-{_sum(java_home, jars, environ)}.jsa"
        for cache, chosen_by in cache_folders(environ):
            with contextlib.suppress(OSError, UnsafeFolderError), _opened(cache / "classes", chosen_by) as folder:
                return ClassArchive(folder.path, name, chosen_by)
        return None

    @property
    def base(self) -> Path:
        """Of a Java that comes without one: the archive of its own classes, which ours adds to."""
        return self.path.with_name(self.name.replace("spark-", "base-"))

    def java_options(self) -> list[str]:
        """What has Java use it; nothing if it is not there, or somebody else could have written it."""
        try:
            with self._opened() as folder:
                files = [name for name in (self.base.name, self.name) if (folder.path / name).exists()]
                for name in files:
                    with folder.read(name) as file:
                        os.utime(file.fileno())  # it is of use: others are removed before it
        except (OSError, UnsafeFolderError):
            return []
        if self.name not in files:
            return []
        archives = os.pathsep.join(str(self.folder / name) for name in files)
        # Java would tell on stdout that an archive does not fit.
        return [f'"-XX:SharedArchiveFile={archives}"', "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]

    def make_after_this_process(self, environ: Mapping[str, str] = os.environ) -> None:
        """Have it made once this process has ended, unless another is at it or it did not succeed lately."""
        if environ.get(VARIABLE, "").lower() != READY:
            atexit.register(self._start_making)

    def _start_making(self) -> None:
        if self.path.exists() or self._was_tried() or shutil.disk_usage(self.folder).free < FREE_BYTES:
            return
        command = [sys.executable, "-m", TRAINING, str(self.path), self.chosen_by]
        nowhere = subprocess.DEVNULL
        with contextlib.suppress(OSError):
            subprocess.Popen(
                command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True, close_fds=True
            )
            self._tell()

    def _tell(self) -> None:
        text = f"so that Spark starts faster from now on, a class archive is made in {self.path}; {VARIABLE}=off: not"
        _log.info(text)
        if sys.stderr is not None and sys.stderr.isatty():
            print(text, file=sys.stderr)

    def _was_tried(self) -> bool:
        with contextlib.suppress(OSError):
            return time.time() - self._trying.stat().st_mtime < AGAIN_SECONDS
        return False

    @property
    def _trying(self) -> Path:
        """Stands there from the beginning of a try until it has succeeded."""
        return self.path.with_suffix(".trying")

    def _opened(self) -> PrivateFolder:
        return private_folder(self.folder, self.chosen_by)

    def make(self, train: Train) -> bool:
        """Let Spark load what a query needs, and keep that; False if it did not come to that."""
        if not self._claim():
            return False
        draft = self.path.with_suffix(f".{os.getpid()}")
        try:
            train(draft, self.base)
            if not draft.is_file() or draft.stat().st_size > MOST_BYTES:
                return False
            os.chmod(draft, 0o600)
            with self._opened() as folder:
                folder.replace(draft.name, self.name)
                self._remove_others()
            self._trying.unlink(missing_ok=True)
            return True
        finally:
            draft.unlink(missing_ok=True)

    def _claim(self) -> bool:
        """Whether this process is the one to make it: of two at once only one is."""
        if self.path.exists() or self._was_tried():
            return False
        self._trying.unlink(missing_ok=True)
        try:
            os.close(os.open(self._trying, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        return True

    def _remove_others(self) -> None:
        archives = sorted(self.folder.glob("spark-*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in archives[MOST_ARCHIVES:]:
            path.unlink(missing_ok=True)
            path.with_name(path.name.replace("spark-", "base-")).unlink(missing_ok=True)


@contextlib.contextmanager
def _opened(path: Path, chosen_by: str) -> Iterator[PrivateFolder]:
    # The folder above is checked as the one that is the user's own; this one as part of it.
    with private_folder(path.parent, chosen_by) as cache, cache.below(path.name) as folder:
        yield folder


def _sum(java_home: Path, jars: Path, environ: Mapping[str, str]) -> str:
    """What an archive depends on: this Java, these jars in this order, and how Spark makes the class path of them."""
    parts = [
        str(FORMAT),
        str(java_home),
        str(jars),
        environ.get("SPARK_CONF_DIR", ""),
        environ.get("SPARK_DIST_CLASSPATH", ""),
        str(local_files.JAR),  # which comes first on the class path
    ]
    with contextlib.suppress(OSError):
        parts.append((java_home / "release").read_text(encoding="utf-8"))
    ours = [local_files.JAR] if local_files.JAR.is_file() else []
    for path in [*ours, *sorted(jars.iterdir())]:
        status = path.stat()
        parts.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
