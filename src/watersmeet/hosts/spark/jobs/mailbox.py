"""A word from a task to the driver while its batch is under way: that far more answers come than anybody asks for.

All else that tasks tell comes with the end of their batch, and such a batch has none. So a task that sees a flood
connects to the driver, once, and says so (see post_office.py). Where it cannot, it is in the log of the task.
"""

from __future__ import annotations

import json
import logging
import socket

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.task import batch_number, query_id

LOGGER = logging.getLogger("watersmeet")
PATIENCE_S = 2.0


@dataclass(frozen=True)
class Mailbox:
    """Where tasks of one query tell of floods; it travels with the job."""

    host: str
    port: int
    key: str

    def tell(self, sentence: str) -> None:
        """Never fails: the answers matter more."""
        said = {"key": self.key, "sentence": sentence, "query": query_id(), "batch": batch_number()}
        try:
            with socket.create_connection((self.host, self.port), PATIENCE_S) as out:
                out.sendall(json.dumps(said).encode())
        except OSError:
            log_only(sentence)


def log_only(sentence: str) -> None:
    LOGGER.warning("%s", sentence)
