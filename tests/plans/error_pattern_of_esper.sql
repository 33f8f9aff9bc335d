SELECT k FROM PATTERN [every a -> b]
