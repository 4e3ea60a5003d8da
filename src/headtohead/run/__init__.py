"""One seed: a run trained to its end, its folder in the store, and where runs are trained."""
