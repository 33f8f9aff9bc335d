"""Answers that change as rows come and expire: change logs in, change logs out."""
