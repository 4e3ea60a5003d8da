"""Part 5, solution: a classifier on a pretrained encoder."""

from torch import nn


class PretrainedClassifier(nn.Module):
    def __init__(self, encoder, width, classes, freeze=True):
        super().__init__()
        self.encoder, self.freeze = encoder, freeze
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(width, classes)
        if freeze:
            encoder.requires_grad_(False)
            encoder.eval()

    def train(self, mode=True):
        super().train(mode)
        if self.freeze:
            self.encoder.eval()
        return self

    def forward(self, input_ids, attention_mask):
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        real = attention_mask[..., None].to(states.dtype)
        mean = (states * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return self.out(self.dropout(mean))


def trainable(model):
    """The number of parameters that training changes."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
