"""What runs: operators over batches and watermarks, the state they keep, and the kernels beneath them."""
