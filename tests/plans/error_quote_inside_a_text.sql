SELECT k FROM a WHERE s = 'it's'
