"""Kernels of those models."""
