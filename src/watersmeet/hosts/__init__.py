"""Where queries run."""
