from torch import nn

from headtohead import Position, PositionHooks


class Places(Position):
    """One learned vector for each position of the block, added to the token's."""

    equation = "x_i = e_i + p[i]"
    reference = "Radford et al. 2019 (GPT-2)"

    def build(self, dims):
        return PlacesHooks(dims)


class PlacesHooks(PositionHooks):
    def __init__(self, dims):
        super().__init__()
        self.table = nn.Embedding(dims.block, dims.width)

    def embed(self, x, i):
        order = i.amax(dim=-1, keepdim=True) - i  # (B|1, T)
        return x + self.table(order)
