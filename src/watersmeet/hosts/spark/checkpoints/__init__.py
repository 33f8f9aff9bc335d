"""What lies in a checkpoint beside what Spark itself keeps there, and who may go on with it."""
