"""A short card for each paper: its idea, what it assumes, what it costs, and where it lives here."""

from __future__ import annotations

from watersmeet.dataclass import dataclass


@dataclass(frozen=True)
class Card:
    """`files` are paths below src/watersmeet."""

    title: str
    authors: str
    where: str
    idea: str
    assumes: str
    cost: str
    files: tuple[str, ...]


CARDS: dict[str, Card] = {
    "K05": Card(
        title="Analytical and Experimental Evaluation of Stream-Based Join",
        authors="H. Kostowski, K. T. Claypool",
        where="ICEIS 2005",
        idea="Join two windows by nested loops or by hash buckets, and choose when to throw out expired rows: at the "
        "probe, at probe and insert, or from all buckets.",
        assumes="Two streams, equality on one column, timestamps in the order of arrival, half-open windows.",
        cost="Per time unit, nested loops scan λ_A λ_B (T_A + T_B) rows; hashing divides each side by its buckets, "
        "until there are more buckets than values.",
        files=("papers/joins/loops.py", "papers/joins/kernels/classic_loops.py", "papers/orders/cost_k05.py"),
    ),
    "GO03": Card(
        title="Processing Sliding Window Multi-Joins in Continuous Queries over Data Streams",
        authors="L. Golab, M. T. Özsu",
        where="VLDB 2003",
        idea="Join n windows at once in nested loops, the new row outermost, at every arrival or every τ; order the "
        "windows by a cost model.",
        assumes="All windows in memory, one common join column, closed windows measured from the newest row.",
        cost="For each stream its rate times the sum, over the loops, of the rows carried so far times the window (or "
        "bucket) scanned.",
        files=(
            "papers/joins/loops.py", "papers/joins/loop_plan.py", "papers/orders/cost_go03.py",
            "optimizer/join_order.py", "papers/orders/heuristics.py",
        ),
    ),
    "H02": Card(
        title="Joining Multiple Data Streams with Window Constraints",
        authors="M. A. Hammad, W. G. Aref, A. K. Elmagarmid",
        where="Purdue University, technical report 02-010, 2002",
        idea="One operator joins n streams under windows between pairs of streams; each row it binds shrinks the "
        "period in which the others may lie.",
        assumes="Each stream in the order of its times; streams are taken in turn, whatever their order among "
        "each other.",
        cost="Rows touched per arriving row: what lies in the period, for nested loops; the bucket's part of it, for "
        "hashing; runs of equal keys, for merging.",
        files=(
            "papers/joins/w_join.py", "papers/joins/h02.py", "papers/joins/merge_join.py",
            "papers/joins/periods.py", "model/windows.py",
        ),
    ),
    "H04": Card(
        title="Efficient Pipelined Execution of Sliding Window Queries over Data Streams",
        authors="M. A. Hammad, T. M. Ghanem, W. G. Aref, A. K. Elmagarmid, M. F. Mokbel",
        where="Purdue University, 2004",
        idea="An answer is right if it equals the query over the windows at every instant. Expiry is noticed by the "
        "next input (ITA), by asking the inputs for the time (TPA), or by negative rows (NTA).",
        assumes="One clock, streams in the order of their times, windows over single streams.",
        cost="ITA answers late when input is rare; TPA looks for what expired in every operator; NTA sends every row "
        "through the plan twice.",
        files=("operators/continuous/pipeline.py", "operators/continuous/negative_join.py", "papers/pipelines/cost.py"),
    ),
    "DGR03": Card(
        title="Approximate Join Processing Over Data Streams",
        authors="A. Das, J. Gehrke, M. Riedewald",
        where="SIGMOD 2003",
        idea="When memory is short, keep the rows that the other stream is most likely to ask for; what the best "
        "choice would have been is a min-cost flow.",
        assumes="Two streams, one row of each per tick, equality on one column, known frequencies of the keys.",
        cost="PROB: a priority queue, logarithmic per row. The optimum: one shortest path per row of memory, on a "
        "graph of at most three nodes per tick here.",
        files=(
            "operators/keeping/bounded.py", "operators/keeping/policies.py", "papers/shedding/simulate.py",
            "papers/shedding/optimum.py",
            "papers/shedding/paper_graph.py", "papers/shedding/static.py",
            "papers/shedding/measures.py",
        ),
    ),
}  # fmt: skip
