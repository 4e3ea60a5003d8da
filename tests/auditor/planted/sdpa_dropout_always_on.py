"""`dropout_p` is handed to scaled_dot_product_attention in evaluation too; that function knows no eval mode.

`model.eval()` switches off every other dropout, so scores are noisy for no visible reason.
"""

from gpt_base import GPT, Attn
from torch.nn import functional as F

CLASS = "DropsInEval"
FLAGS = ["--causal"]
CAUGHT_BY = {"dropout"}


class DropsInEvalAttn(Attn):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.drop.p, is_causal=True)


class DropsInEval(GPT):
    attention = DropsInEvalAttn
