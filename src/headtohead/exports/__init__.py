"""Runs as folders that Hugging Face's libraries load."""
