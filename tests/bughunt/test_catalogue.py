"""Every bug changes what the models do, is shown by the check that the key names, and is repaired by the key."""

import itertools

import pytest

from headtohead.auditor import Claims, examine
from headtohead.auditor.module import from_module
from headtohead.bughunt.catalogue import BUGS, SOUND, SPELLINGS, Bug
from headtohead.bughunt.hunts import lines_of, planted, sound_text, spelled
from headtohead.bughunt.measurements import WHOLE, agree
from helpers.hunted import loaded, measured, misjudged

CLAIMS = {"Decoder": Claims(causal=True), "Classifier": Claims()}


def differences(text: str) -> list[str]:
    sound, other = measured(sound_text()), measured(text)
    assert sound.keys() == other.keys()
    return [name for name in sound if not agree(sound[name], other[name])]


def test_there_are_many_bugs_of_many_families() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 40
    assert len({bug.family for bug in BUGS}) >= 15


@pytest.mark.parametrize("name", ["Decoder", "Classifier"])
def test_the_sound_model_passes_the_audit(name: str) -> None:
    report = examine(from_module(getattr(loaded(sound_text()), name), name, CLAIMS[name]))
    assert report.broken == ()
    assert report.count("proved") >= 14
    assert not any(isinstance(v, str) and v.startswith("it raised") for v in measured(sound_text()).values())
    assert len(SOUND.read_text().splitlines()) < 180


FIRST = {bug.family: bug for bug in reversed(BUGS)}.values()  # one of each family; the others are slow tests
EACH = [pytest.param(bug, id=bug.name, marks=[] if bug in FIRST else pytest.mark.slow) for bug in BUGS]


@pytest.mark.parametrize("bug", EACH)
def test_a_bug_changes_the_complete_models_and_is_repaired(bug: Bug) -> None:
    assert sound_text().count(bug.old) == 1
    assert 1 <= len(lines_of(bug)) <= 2
    assert any(name.startswith(WHOLE) for name in differences(planted([bug])))
    assert misjudged([bug]) == []
    assert bool(bug.check) != bool(bug.seen), "the key says how it is seen, in one way"


@pytest.mark.parametrize("bug", [each for each in EACH if each.values[0].check])
def test_the_check_of_the_key_shows_the_bug(bug: Bug) -> None:
    subject = from_module(getattr(loaded(planted([bug])), bug.of), bug.of, CLAIMS[bug.of])
    report = examine(subject, [bug.check])
    assert [f.check for f in (*report.broken, *report.advice)] == [bug.check]


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda s: s[0])
def test_a_spelling_is_on_one_line(spelling: tuple[str, str]) -> None:
    assert sound_text().count(spelling[0]) == 1
    assert sound_text().count("\n") == spelled(sound_text(), [spelling]).count("\n")


def test_all_spellings_together_change_nothing() -> None:
    text = spelled(sound_text(), SPELLINGS)
    assert differences(text) == []
    changed = sum(a != b for a, b in zip(text.splitlines(), sound_text().splitlines(), strict=True))
    assert changed >= 20


ATTEND = """        scores = q @ k.transpose(-2, -1)
        scores = scores / math.sqrt(self.size)
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        weights = self.drop(weights)
        y = (weights @ v).transpose(1, 2).flatten(2)  # (B, T, width)
"""
REWRITES = {
    "fused attention": (
        ATTEND,
        "        p = self.drop.p if self.training else 0.0\n"
        "        y = F.scaled_dot_product_attention(q, k, v, allowed, p).transpose(1, 2).flatten(2)\n",
    ),
    "minus infinity": (
        "torch.finfo(scores.dtype).min)\n        weights = scores.softmax(dim=-1)",
        "-torch.inf)\n        weights = scores.softmax(dim=-1).nan_to_num(0.0)",
    ),
    "generation without a cache": ("logits, cache = self(new, cache)", "logits, _ = self(ids)"),
    "gradients erased after the step": (
        "    optimizer.zero_grad()\n    loss.backward()\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    optimizer.step()\n",
        "    loss.backward()\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()\n"
        "    optimizer.zero_grad()\n",
    ),
    "loss by hand": (
        "return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)",
        "p = logits.log_softmax(dim=-1).gather(-1, targets[..., None])[..., 0]\n"
        "        return -(p * (targets != PAD)).sum() / (targets != PAD).sum()",
    ),
    "torch's norm": (
        """        x = x - x.mean(dim=-1, keepdim=True)
        variance = x.pow(2).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(variance + 1e-5) * self.gain + self.shift""",
        "        return F.layer_norm(x, x.shape[-1:], self.gain, self.shift)",
    ),
    "weights drawn in another order": (
        "        self.tokens = nn.Embedding(vocab, width)\n        self.places = nn.Embedding(block, width)\n",
        "        self.places = nn.Embedding(block, width)\n        self.tokens = nn.Embedding(vocab, width)\n",
    ),
}


@pytest.mark.parametrize("name", REWRITES)
def test_other_correct_code_agrees(name: str) -> None:
    old, new = REWRITES[name]
    assert old in sound_text()
    assert [d for d in differences(sound_text().replace(old, new)) if d.startswith(WHOLE)] == []


def apart(bugs: tuple[Bug, ...]) -> bool:
    """Whether a hunt can have these bugs together."""
    lines = [n for bug in bugs for n in lines_of(bug)]
    return len({b.family for b in bugs}) == len(bugs) and len(set(lines)) == len(lines)


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda b: b.name)
def test_every_pair_of_bugs_is_told_apart(bug: Bug) -> None:
    others = [other for other in BUGS[BUGS.index(bug) + 1 :] if apart((bug, other))]
    assert [text for other in others for text in misjudged([bug, other])] == []


def test_most_pairs_of_bugs_can_be_planted_together() -> None:
    assert sum(apart(pair) for pair in itertools.combinations(BUGS, 2)) > 900
