"""How Spark and its Python workers are started."""
