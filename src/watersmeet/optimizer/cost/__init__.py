"""What a join costs by the models of the papers: streams and predicates in, comparisons a unit of time out.

`inputs` says what is known of a join, `loops` what its nested loops do; `go03`, `k05` and `h04` are the formulas.
"""
