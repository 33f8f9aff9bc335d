"""GO03: Golab and Özsu, Processing Sliding Window Multi-Joins. Figures 2 to 4, Tables 2, 3 and 5 to 8.

Costs come from the paper's model (papers/orders/cost_go03.py); beside them stand counts of the engine's own joins, run
on streams of the paper's generator. One unit of the paper's time is Σλ iterations, so that windows hold λT rows.
`units` of time are counted once the windows are full. Costs do not change with size, so they have no 10x and 100x.
"""

from __future__ import annotations

from watersmeet.lab.experiment import Experiment
from watersmeet.lab.papers.go03.figure_2 import E2
from watersmeet.lab.papers.go03.figure_3 import E3A, E3B
from watersmeet.lab.papers.go03.figure_4a import E4A
from watersmeet.lab.papers.go03.figure_4b import E4B
from watersmeet.lab.papers.go03.shared_evaluation import O3
from watersmeet.lab.papers.go03.stream_properties import O2
from watersmeet.lab.papers.go03.table_8 import E8
from watersmeet.lab.papers.go03.tables_2_and_3 import W1
from watersmeet.lab.papers.go03.tables_5_to_7 import E5, E6, E7

EXPERIMENTS: tuple[Experiment, ...] = (E2, E3A, E3B, E5, E6, E7, E8, E4A, E4B, W1, O2, O3)
