"""Kernels of the papers' joins."""
