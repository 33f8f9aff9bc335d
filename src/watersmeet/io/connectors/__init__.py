"""Where rows come from and go to, as parts that every host can drive: each knows neither hosts nor operators."""
