"""Look into a trained model: attention maps, how they came about, what each head is worth."""
