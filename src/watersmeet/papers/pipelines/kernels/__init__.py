"""What the printed operators do for one tuple after the other, on arrays."""
