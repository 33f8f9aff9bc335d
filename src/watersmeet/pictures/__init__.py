"""Pictures as SVG: text that fits, trees of boxes, and the one look that all of them have."""
