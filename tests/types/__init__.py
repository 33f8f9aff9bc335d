"""Every type that Arrow has, in every clause of the language."""
