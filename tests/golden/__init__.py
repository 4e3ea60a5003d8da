"""Our model against other people's code, against its own equation in plain loops, and against published counts."""
