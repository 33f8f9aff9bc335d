"""Joins of which rows are given, or asked for, without a partner, where the answer only grows."""
