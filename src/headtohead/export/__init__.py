"""Exports a run as a folder that Hugging Face's transformers loads."""
