"""Text in, numbers out: corpora, preparations, tokenizers, batches. Knows no model."""
