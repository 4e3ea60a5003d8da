"""Where runs are trained: local processes or Ray."""
