SELECT k FROM a.withWatermark('ts', '5 minutes')
