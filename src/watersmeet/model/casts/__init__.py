"""CAST, of columns and of constants alike: what comes out of every pair of types, and which values do not fit."""

from watersmeet.model.casts.cast import cast, try_cast

__all__ = ["cast", "try_cast"]
