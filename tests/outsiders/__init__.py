"""What somebody finds who has read the documentation and nothing else: random rows and queries, whose answers DuckDB is
asked for in SQL that was written by hand. Nothing here looks at plans, at the reference or at `check`, so that what
these have in common with the engine cannot hide a mistake.

`python -m tests.outsiders --family joins --cases 1000` goes on until a case fails, and makes it small."""
