"""Attention puzzles: selection and averaging, solved, checked and explained."""
