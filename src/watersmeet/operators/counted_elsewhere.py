"""Which rows an operator has as copies: another operator of the same plan has them as well, and counts them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.operators.codes import Codes
from watersmeet.operators.partition_key import PartitionKey, key_codes
from watersmeet.operators.spread_rows import are_copies, is_copied
from watersmeet.physical.strategy import Code


@dataclass(frozen=True)
class CountedElsewhere:
    """By the names that rows are pushed under. `streams`: of these all are. `key`: where it spreads some keys, those of
    other streams are that are not at home in this `part` of so many `parts`."""

    streams: frozenset[str] = frozenset()
    key: PartitionKey | None = None
    parts: int = 1
    part: int = 0

    @staticmethod
    def in_part(part: int, parts: int, key: PartitionKey) -> CountedElsewhere:
        return CountedElsewhere(key.copied if part else frozenset(), key, parts, part)

    def key_of(self, name: str) -> Code | None:
        """The key by which some rows of a stream are copies, if some are."""
        key = self.key
        some = key is not None and name not in key.copied and is_copied(key.spread, name)
        return key.codes.get(name) if some and key is not None else None

    def among(self, name: str, keys: Codes) -> int:
        """How many of the rows with these keys are, of a stream of which some are."""
        assert self.key is not None
        return int(np.count_nonzero(are_copies(self.key.spread, name, keys, self.parts, self.part)))

    def in_rows(self, name: str, data: pa.RecordBatch) -> int:
        """The same of the rows of any stream."""
        if name in self.streams:
            return int(data.num_rows)
        key = self.key_of(name)
        return 0 if key is None else self.among(name, key_codes(key, data))


NONE = CountedElsewhere()
