"""One file per paper: its experiments as data, how each is run, and what decides its verdict."""
