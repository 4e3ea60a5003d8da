"""Questions to a trained model: attention maps, how heads develop, what each head adds, generated text, scores."""

from headtohead.interpret.maps import Maps, attention

__all__ = ["Maps", "attention"]
