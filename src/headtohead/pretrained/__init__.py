"""Pretrained weights: reading checkpoints of Hugging Face, and starting runs from them."""
