"""K05: Kostowski and Claypool, Analytical and Experimental Evaluation of Stream-Based Join. Figures 4 to 8.

Two streams, windows of 30 s, a batch of 60 s of which the last 30 are measured; 100 join values and 100 buckets unless
varied. The paper gives no rates: those of the scale `paper` are chosen so that its statements can be seen.
K05-O2 is what it leaves open: operators other than joins.
"""

from __future__ import annotations

from watersmeet.lab.experiment import Experiment
from watersmeet.lab.papers.k05.figure_4 import E4
from watersmeet.lab.papers.k05.figure_7 import E7
from watersmeet.lab.papers.k05.figure_8 import E8
from watersmeet.lab.papers.k05.figures_5_and_6 import E5, E6
from watersmeet.lab.papers.k05.invalidation import O2

EXPERIMENTS: tuple[Experiment, ...] = (E4, E5, E6, E7, E8, O2)
