"""The papers' experiments, run on the engine's own operators, and the streams they are run on."""
