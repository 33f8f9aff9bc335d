SELECT k FROM a WHERE s = 'abc
