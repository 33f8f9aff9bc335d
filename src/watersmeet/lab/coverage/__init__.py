"""What of the five papers is here: every definition, algorithm, formula, experiment, example and open end, row by row.

`catalogue.tsv` says what there is; a table for each paper says where it lives, how a user reaches it, what shows it,
and whether it is all there.
"""
