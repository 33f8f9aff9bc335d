"""The in-process host that outlives its process: what comes is written down before it is answered."""
