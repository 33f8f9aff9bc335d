"""What has been measured of a join's inputs while they flowed: enough to choose its order anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from watersmeet.physical.strategy import Code

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class InputStatistics:
    """One input: rows a second of event time, rows kept, and of some codes the number of values and a sample.

    Samples of all codes of an input are of the same rows, in the same order.
    """

    rate: float
    rows: float
    distinct: Mapping[Code, float] = field(default_factory=dict)
    samples: Mapping[Code, Values] = field(default_factory=dict)


JoinStatistics = Mapping[str, InputStatistics]
