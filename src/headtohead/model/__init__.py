"""The transformer: its equation, cache and losses, and tools that count and observe it."""
