"""Verdicts for figures that were made elsewhere: tables, TensorBoard, Weights & Biases, Trainer, lm-eval, log files.

`comparison.compare_sources` is what `h2h compare` and `h2h.compare()` call. Each format has one reader.
Imports no torch.
"""
