from headtohead import Pooling


class Average(Pooling):
    """The mean of a text's tokens."""

    equation = "Σ_t keep_t x_t / Σ_t keep_t"
    reference = "Reimers and Gurevych 2019, Sentence-BERT"

    def pool(self, x, keep):
        real = x * keep[:, :, None]  # (B, T, D)
        return real.mean(dim=1)
