"""One training step: the arm, its task, the trainer, evaluation."""
