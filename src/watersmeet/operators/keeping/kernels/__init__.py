"""Kernels of joins in bounded memory."""
