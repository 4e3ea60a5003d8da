"""Does an effect persist? Studies at several scales, over a grid of learning rates, and by source of noise."""
