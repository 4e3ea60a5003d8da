"""Look into a trained model: attention maps, how they came about, what each head is worth."""

from headtohead.inspect.maps import Maps, attention

__all__ = ["Maps", "attention"]
