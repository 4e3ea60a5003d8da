"""What came of a study, read from the store: metrics, verdicts, and verdicts in words."""
