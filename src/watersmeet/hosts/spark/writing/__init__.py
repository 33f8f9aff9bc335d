"""Where answers are written to."""
