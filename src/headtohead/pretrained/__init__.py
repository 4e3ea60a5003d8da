"""Pretrained weights: what architectures are in our words, and runs that start from them."""
