"""DGR03, Approximate Join Processing over Data Streams: Figures 3 to 11, variable memory, its two examples,
and four things that it leaves open: incomplete rows, slow processors, memory that queries share, rows at any time.

Two streams, one row of each per tick, a window of w ticks, memory for M rows; 2w would be exact. Every run counts the
results after a warm-up of 2w. Lines are of the engine's own join; those called a model replay the paper's row by row.
"""

from __future__ import annotations

from watersmeet.lab.experiment import Experiment
from watersmeet.lab.papers.dgr03.any_arrivals import O4
from watersmeet.lab.papers.dgr03.examples import W1, W2
from watersmeet.lab.papers.dgr03.figure_6 import E6
from watersmeet.lab.papers.dgr03.figures_3_to_5 import E3, E4, E5
from watersmeet.lab.papers.dgr03.figures_7_and_8 import E7, E7F, E7P, E7S, E7W, E8
from watersmeet.lab.papers.dgr03.figures_9_to_11 import E9, E10, E11
from watersmeet.lab.papers.dgr03.incomplete_rows import O1
from watersmeet.lab.papers.dgr03.shared_memory import O3
from watersmeet.lab.papers.dgr03.slow_processor import O2
from watersmeet.lab.papers.dgr03.variable_memory import E6V
from watersmeet.lab.workloads.pizzas import have_pizzas

_PIZZAS = (E7P,) if have_pizzas() else ()
EXPERIMENTS: tuple[Experiment, ...] = (
    W1,
    W2,
    E3,
    E4,
    E5,
    E6,
    E6V,
    E7,
    E7S,
    E7F,
    E7W,
    *_PIZZAS,
    E8,
    E9,
    E10,
    E11,
    O1,
    O2,
    O3,
    O4,
)
