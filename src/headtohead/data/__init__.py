"""From text to batches of numbers: corpora, preparations, tokenizers, batches. Imports no model."""
