"""The Spark host: the same operators as streaming DataFrames. The only folder that imports pyspark."""
