"""Runs, studies and models on a terminal and in a notebook."""
