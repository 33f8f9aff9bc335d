"""The host in this process."""
