"""Joins in too little memory: what to give up, what is lost by it, and what the best choice would have been."""
