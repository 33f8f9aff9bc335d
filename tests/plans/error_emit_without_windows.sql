SELECT k FROM a [RANGE 1 MINUTE] OPTIONS (emit = 'changes')
