"""Many options: positional, None, strings, floats; act, eps, init_std, use_bias, max_len, theta, label_smoothing."""

from torch import nn
from torch.nn import functional as F

CLASS = "LM"
FLAGS = ["--causal"]


class LM(nn.Module):
    def __init__(
        self,
        vocab_size: int = 40,
        max_len: int = 64,
        n_layer: int = 1,
        n_head: int = 2,
        d_model: int = 16,
        d_ff: int | None = None,
        act: str = "gelu",
        eps: float = 1e-5,
        init_std: float = 0.02,
        use_bias: bool = False,
        embd_pdrop: float = 0.1,
        attn_pdrop: float = 0.1,
        resid_pdrop: float = 0.0,
        device=None,
        dtype=None,
        verbose: bool = False,
    ):
        super().__init__()
        d = d_model
        self.emb, self.pos = nn.Embedding(vocab_size, d), nn.Embedding(max_len, d)
        self.h, self.attn_pdrop = n_head, attn_pdrop
        self.d1, self.d2 = nn.Dropout(embd_pdrop), nn.Dropout(resid_pdrop)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "n1": nn.LayerNorm(d, eps=eps),
                    "n2": nn.LayerNorm(d, eps=eps),
                    "qkv": nn.Linear(d, 3 * d, bias=use_bias),
                    "o": nn.Linear(d, d, bias=use_bias),
                    "up": nn.Linear(d, d_ff or 4 * d),
                    "down": nn.Linear(d_ff or 4 * d, d),
                }
            )
            for _ in range(n_layer)
        )
        self.out = nn.Linear(d, vocab_size)
        self.act = getattr(F, act)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=init_std)
        if verbose:
            print("hello")

    def forward(self, ids):
        B, T = ids.shape
        x = self.d1(self.emb(ids) + self.pos.weight[:T])
        for L in self.layers:
            q, k, v = L["qkv"](L["n1"](x)).view(B, T, 3, self.h, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(
                q, k, v, is_causal=True, dropout_p=self.attn_pdrop if self.training else 0.0
            )
            x = x + self.d2(L["o"](y.transpose(1, 2).flatten(2)))
            x = x + self.d2(L["down"](self.act(L["up"](L["n2"](x)))))
        return self.out(x)
