"""Whether Spark's Python workers can run what they are sent: the same Python, the same watersmeet, and what it needs.

On a local master the workers' program is known, so it is asked by itself, and at once. Elsewhere a small job asks it,
before the first query.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from watersmeet.code_sum import code
from watersmeet.errors import SetupError
from watersmeet.hosts.spark.errors import OTHER_WORKERS, first_useful_line
from watersmeet.hosts.spark.launching.fork_server import python_for_spark
from watersmeet.hosts.spark.launching.launch import cores, is_connect, is_local, workers_find_us
from watersmeet.version import VERSION

NEEDED = ("numpy", "pyarrow", "pandas", "sqlglot")
# Runs in any Python, also in one that has none of this.
PROBE = f"""
import json, sys
from importlib.util import find_spec
found = {{"python": "%d.%d" % sys.version_info[:2], "program": sys.executable}}
found["without"] = [name for name in {NEEDED!r} if find_spec(name) is None]
try:
    import watersmeet
    found["version"] = watersmeet.__version__
    from watersmeet.code_sum import code
    found["code"] = code()
    from watersmeet.compiling import no_kernels
    found["kernels"] = str(no_kernels() or "")
except ImportError as error:
    found["missing"] = str(error)
found = json.dumps(found)
"""
PATIENCE_SECONDS = 60  # importing the package cold, on a busy machine
# Sessions whose workers were found to be right.
_right: WeakSet[SparkSession] = WeakSet()


def check_workers(spark: SparkSession, *, by_job: bool = True) -> None:
    """Refuse workers that cannot run our functions, with what to set; once for each Spark session.

    Without `by_job` only what is known without one is checked.
    """
    if spark in _right:
        return
    if not _is_this_python(spark):
        if _has_known_path(spark):
            compare(_asked(spark.sparkContext.pythonExec))
        elif by_job:
            for found in _asked_by_a_job(spark):
                compare(found)
        else:
            return
    _right.add(spark)


def compare(found: dict[str, Any]) -> None:
    """Refuse what a worker tells of itself if this process is something else."""
    program, here = found["program"], f"{sys.version_info[0]}.{sys.version_info[1]}"
    if found["python"] != here:
        raise _wrong(f"Spark's workers run Python {found['python']} ({program}), and this process runs {here}")
    if "version" not in found:
        raise _wrong(f"the Python of Spark's workers, {program}, has no watersmeet ({found['missing']})")
    version = found["version"]
    if version != VERSION:
        raise _wrong(f"Spark's workers have watersmeet {version} ({program}), this process {VERSION}")
    # Jobs travel as pickles, which hold names of our classes: the same version with other code may not even load them.
    if found.get("code") != code():
        raise _wrong(
            f"Spark's workers have another watersmeet {version} than this process ({program}): the code differs"
        )
    if found["without"]:
        raise _wrong(f"the Python of Spark's workers, {program}, has no {', '.join(found['without'])}")
    if found["kernels"]:
        raise SetupError(f"Spark's workers ({program}) cannot run queries: {found['kernels']}")


def _wrong(problem: str) -> SetupError:
    return SetupError(problem, hint=OTHER_WORKERS)


def _is_this_python(spark: SparkSession) -> bool:
    """Whether workers surely find what this process has: its program, and the package where that always looks."""
    ours = (sys.executable, str(python_for_spark()))
    return _runs_here(spark) and shutil.which(spark.sparkContext.pythonExec) in ours and workers_find_us()


def _has_known_path(spark: SparkSession) -> bool:
    """Whether the workers' program can be asked by itself; files that were sent along only workers find."""
    return _runs_here(spark) and not getattr(spark.sparkContext, "_python_includes", None)


def _runs_here(spark: SparkSession) -> bool:
    return not is_connect(spark) and is_local(spark.sparkContext.master or "")


def _asked(program: str) -> dict[str, Any]:
    asked = [program, "-c", PROBE + "print(found)"]
    try:
        ran = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise _wrong(f"{program}, which Spark's workers are to run, cannot be used: {_reason(error)}") from None
    # The last line: a site's start-up files may print as well.
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _reason(error: Exception) -> str:
    said = getattr(error, "stderr", None)
    return str(said).strip().splitlines()[-1] if said else str(error)


def _asked_by_a_job(spark: SparkSession) -> list[dict[str, Any]]:
    """What workers tell that differs; a task for each core is likely to reach every machine."""
    tasks = cores(spark)
    # With Arrow the function itself could not run where pyarrow is missing, which is what it is to tell.
    ask = F.udf(_asking(PROBE), "string", useArrow=False)
    try:
        rows = spark.range(0, tasks, 1, tasks).select(ask("id")).collect()
    except Exception as error:
        versions = re.search(r"different version: (\d+\.\d+) than that in driver: (\d+\.\d+)", str(error))
        if versions:
            raise _wrong(f"Spark's workers run Python {versions[1]}, and this process runs {versions[2]}") from None
        raise _wrong(f"Spark's workers cannot run Python functions: {first_useful_line(error)}") from None
    return [json.loads(told) for told in sorted({row[0] for row in rows})]


def _asking(probe: str) -> Callable[[int], str]:
    """A function that travels as a whole: one of this module would be looked for in a package that may not be there."""

    def ask(_: int) -> str:
        names: dict[str, Any] = {}
        exec(probe, names)
        return str(names["found"])

    return ask
