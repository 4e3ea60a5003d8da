"""Text from a trained language model, on the KV cache."""
