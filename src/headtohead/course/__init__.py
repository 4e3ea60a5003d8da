"""A course on transformers: assignment, starter files, slides, rubric and solution. `h2h course` writes them."""
