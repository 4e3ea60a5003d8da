"""Tests of part 5 that students do not see. Each gets the module that finetune.py makes."""

import torch
from transformers import BertConfig, BertModel

WIDTH, CLASSES = 16, 3


def encoder():
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=40,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=24,
        hidden_dropout_prob=0.5,
    )
    return BertModel(config)


def batch():
    draw = torch.Generator().manual_seed(6)
    ids = torch.randint(1, 40, (4, 12), generator=draw)
    mask = (torch.arange(12) < torch.tensor([12, 9, 5, 1])[:, None]).long()
    return ids * mask, mask


def gives_the_right_logits(module):
    base = encoder()
    model = module.PretrainedClassifier(base, WIDTH, CLASSES).eval()
    ids, mask = batch()
    out = logits(model, ids, mask)
    assert out.shape == (4, CLASSES), f"logits of 4 texts have the shape {tuple(out.shape)}, not (4, {CLASSES})"
    many = torch.randint(1, 40, (48, 12), generator=torch.Generator().manual_seed(7))
    real = (torch.arange(12) < torch.arange(1, 13).repeat(4)[:, None]).long()
    out = logits(model, many * real, real).double()
    states = base.eval()(input_ids=many * real, attention_mask=real).last_hidden_state
    mean = (states * real[..., None]).sum(1) / real.sum(1, keepdim=True)
    mean = torch.cat([mean, torch.ones(48, 1)], dim=1).double()
    best = mean @ torch.linalg.lstsq(mean, out).solution  # the best linear layer on the mean over real tokens
    gap = (out - best).abs().max() / out.std()
    assert gap < 1e-3, f"the logits are no linear layer on the mean over real tokens: they are {gap:.0%} away from it"


def keeps_the_encoder_as_it_is(module):
    base = encoder()
    before = {name: p.clone() for name, p in base.state_dict().items()}
    model = module.PretrainedClassifier(base, WIDTH, CLASSES)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.5)
    ids, mask = batch()
    model.train()
    assert not base.training, "the frozen encoder is in training mode: its dropout is active"
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(logits(model, ids, mask), torch.tensor([0, 1, 2, 0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name, value in base.state_dict().items():
        assert torch.equal(value, before[name]), f"training changed {name} of the frozen encoder"


def trains_the_encoder_if_asked(module):
    base = encoder()
    model = module.PretrainedClassifier(base, WIDTH, CLASSES, freeze=False).train()
    ids, mask = batch()
    logits(model, ids, mask).sum().backward()
    found = [p.grad is not None and bool(p.grad.any()) for p in base.encoder.parameters()]
    assert all(found), "with freeze=False a part of the encoder gets no gradient"


def counts_what_is_trained(module):
    frozen = module.PretrainedClassifier(encoder(), WIDTH, CLASSES)
    assert module.trainable(frozen) == WIDTH * CLASSES + CLASSES, (
        f"trainable counts {module.trainable(frozen)} parameters of a frozen model, not {WIDTH * CLASSES + CLASSES}"
    )
    base = encoder()
    wanted = sum(p.numel() for p in base.parameters()) + WIDTH * CLASSES + CLASSES
    found = module.trainable(module.PretrainedClassifier(base, WIDTH, CLASSES, freeze=False))
    assert found == wanted, f"trainable counts {found} parameters of a model that is not frozen, not {wanted}"


def uses_dropout_in_training(module):
    model = module.PretrainedClassifier(encoder(), WIDTH, CLASSES).train()
    ids, mask = batch()
    torch.manual_seed(1)
    outs = torch.stack([logits(model, ids, mask) for _ in range(8)])
    assert outs.std(dim=0).max() > 1e-4, "in training, two passes are equal: dropout before the linear layer is missing"


def logits(model, ids, mask):
    out = model(ids, mask)
    return out[0] if isinstance(out, tuple) else out
