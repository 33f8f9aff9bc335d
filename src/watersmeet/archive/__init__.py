"""What bounded memory let go of, on disk, and what is made of it later."""
