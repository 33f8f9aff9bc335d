"""Files of this machine without a process for each of them: settings that have Spark's Java use LocalFiles.java.

`local_files.jar` is made of that file by `make java`; a test compares the two.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf

JAR = Path(__file__).with_name("local_files.jar")
CLASS_PATH = "spark.driver.extraClassPath"
CLASSES: Mapping[str, str] = {
    "spark.hadoop.fs.file.impl": "watersmeet.LocalFiles$Checked",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "watersmeet.LocalFiles$CheckedContext",
}


def bring(conf: SparkConf) -> None:
    """Have a Java that is to be started find the classes. A class path of the user's, or of a Spark of the user's own,
    is left alone."""
    is_configured = conf.contains(CLASS_PATH) or "SPARK_HOME" in os.environ or "SPARK_CONF_DIR" in os.environ
    if os.name == "posix" and not is_configured and JAR.is_file() and os.pathsep not in str(JAR):
        conf.set(CLASS_PATH, str(JAR))


def are_there(jvm: Any) -> bool:
    """Whether a Java that runs finds them; somebody else may have started it."""
    return str(JAR) in jvm.System.getProperty("java.class.path").split(os.pathsep)


def use(conf: SparkConf) -> None:
    for name, value in CLASSES.items():
        conf.setIfMissing(name, value)
