"""Scalar functions over whole columns: one file per family of functions, each with its table of names."""
