"""Makes local_files.jar of LocalFiles.java; for developers (`make java`), with the javac of a JDK.

The same source gives the same bytes with the same javac, and the jar says of which source it was made.
"""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from watersmeet.hosts.spark.launching.local_files import JAR

SOURCE = JAR.with_name("LocalFiles.java")
MADE_OF = "watersmeet/LocalFiles.sha256"
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def source_sum() -> str:
    return hashlib.sha256(SOURCE.read_bytes()).hexdigest()


def build() -> None:
    import pyspark

    (hadoop,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    with TemporaryDirectory() as folder:
        # 17 is the oldest Java that Spark 4 runs on.
        command = ["javac", "--release", "17", "-g:none", "-Xlint:all,-options,-classfile", "-cp", str(hadoop)]
        subprocess.run([*command, "-d", folder, str(SOURCE)], check=True)
        classes = sorted(Path(folder).rglob("*.class"))
        entries = {str(path.relative_to(folder)): path.read_bytes() for path in classes}
    with zipfile.ZipFile(JAR, "w") as jar:
        for name, data in {MADE_OF: source_sum().encode(), **entries}.items():
            jar.writestr(zipfile.ZipInfo(name, LONG_AGO), data, zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    build()
