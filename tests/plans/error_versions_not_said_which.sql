SELECT a.k, rates.x FROM a JOIN rates ON a.k = rates.k
