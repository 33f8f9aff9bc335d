"""Files of a store that are read once, as a table."""

from __future__ import annotations

import pyarrow as pa

from watersmeet.io.connectors.contract import TableOpening
from watersmeet.io.connectors.files.source import StoreFiles


def files_table(opening: TableOpening) -> pa.Table:
    files = StoreFiles(opening.name, opening.options, opening.columns)
    after = files.begin()
    parts = files.splits(after, files.newest(after))
    return pa.Table.from_batches([batch.rows for split in parts for batch in files.read(split)], files.schema)
