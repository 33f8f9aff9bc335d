"""Plans become operators here, and rows flow through them: sources, the in-process driver, sinks, metrics."""
