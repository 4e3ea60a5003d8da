"""The tokens of a batch as the layers see them: which keys a query sees, where padding is, what is kept."""
