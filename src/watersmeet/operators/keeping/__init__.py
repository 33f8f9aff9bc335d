"""A join in bounded memory: which rows are kept, which are let in, and what that cost."""
