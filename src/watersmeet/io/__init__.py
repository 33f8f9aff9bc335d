"""Where rows come from and go to: formats, files, sources, sinks."""
