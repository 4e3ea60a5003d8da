"""Generation: the cached way is the uncached way, chance is what it says, and windows slide alike for both."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from conformance.small import causal_spec, variants
from headtohead import (
    Bpe,
    Byte,
    Causal,
    Character,
    Full,
    InitSpec,
    InputError,
    LanguageModel,
    Local,
    Reweight,
    Word,
    predict,
)
from headtohead.generate import Cached, Sampling, Uncached, continued, draw, generate, looks_ahead, window_start
from headtohead.lean import lean
from headtohead.writing import write_along
from look.small import SMALL, made

PROMPT = torch.tensor([70, 80, 90])


def ids_of(model, tokens, samples=2, sampling=None, cached=True):
    found = continued(model, PROMPT, tokens, samples, sampling or Sampling(top_k=20), cached=cached)
    return [token.ids for token in found]


@pytest.mark.parametrize("part", variants(), ids=str)
def test_with_the_cache_as_without(part):
    """Every part, past the block: the same logits for every prediction, to rounding."""
    model = made(causal_spec(part), stir=0.1).model.double()
    if looks_ahead(model):
        pytest.skip(f"{part} reads ahead: nothing of it can be kept, and generation reads everything anew")
    fast, slow = Cached(model), Uncached(model)
    text = torch.randint(2, 200, (2, 30), generator=torch.Generator().manual_seed(0))
    text[1, :3] = text[0, :3]  # one prompt
    with torch.inference_mode():
        for end in range(3, 30):
            start = window_start(end, model.spec.block)
            window = text[:, start:end]
            torch.testing.assert_close(
                fast.next(window, end - start), slow.next(window, end - start), atol=1e-9, rtol=0
            )


@pytest.mark.parametrize("sampling", [Sampling(greedy=True), Sampling(top_k=5), Sampling(top_p=0.8), Sampling()])
def test_the_same_text_with_the_cache_as_without(sampling):
    model = made().model.double()
    assert ids_of(model, 40, sampling=sampling) == ids_of(model, 40, sampling=sampling, cached=False)


@pytest.mark.parametrize("spec", [SMALL.set("pattern", Full()), SMALL.set("fusion", Reweight(over="sequence"))])
def test_a_model_that_looks_ahead_is_read_anew(spec):
    model = made(spec).model.double()
    assert looks_ahead(model)
    assert ids_of(model, 20) == ids_of(model, 20, cached=False)


def test_windows_slide_by_half_a_block():
    assert [window_start(end, 8) for end in range(1, 18)] == [0] * 8 + [4] * 4 + [8] * 4 + [12]
    assert [window_start(end, 1) for end in range(1, 5)] == [0, 1, 2, 3]
    for block in (1, 2, 3, 7, 8):
        for end in range(1, 50):
            length = end - window_start(end, block)
            assert (block // 2 < length <= block) or (length == end <= block)


def test_a_prompt_longer_than_the_block_is_read_from_its_end():
    trained = made()
    made_of = generate(trained, "a prompt of more than twelve bytes", tokens=4, sampling=Sampling(greedy=True))
    plain = generate(
        trained, "a prompt of more than twelve bytes", tokens=4, sampling=Sampling(greedy=True), cached=False
    )
    assert made_of[0].tokens == plain[0].tokens
    assert made_of[0].probabilities == pytest.approx(plain[0].probabilities, rel=1e-5)


def test_seeds_and_samples():
    model = made().model
    first, again = ids_of(model, 15, 3), ids_of(model, 15, 3)
    assert first == again
    assert len({tuple(ids[n] for ids in first) for n in range(3)}) == 3, "samples differ"
    assert ids_of(model, 15, 3, Sampling(top_k=20, seed=1)) != first
    alone = ids_of(model.double(), 15, 1)
    assert [ids[:1] for ids in ids_of(model.double(), 15, 3)] == alone, "the first sample is that of one alone"


# -- chance ------------------------------------------------------------------------------------------------------------


LOGITS = torch.tensor([[9.0, 9.0, 2.0, 1.0, 0.0, -1.0, 1.5]])  # the first two are never said
NOTHING = torch.empty(1, 0, dtype=torch.long)


def frequencies(sampling, window=NOTHING, count=20_000):
    u = (np.arange(count) + 0.5) / count  # chance, evenly
    many = LOGITS.expand(count, -1)
    ids, _ = draw(many, window.expand(count, -1), sampling, u)
    return np.bincount(ids.numpy(), minlength=7) / count


def softmax(x):
    e = np.exp(np.array(x) - np.max(x))
    return e / e.sum()


def test_tokens_come_as_often_as_the_model_says():
    expected = softmax([2.0, 1.0, 0.0, -1.0, 1.5])
    np.testing.assert_allclose(frequencies(Sampling())[2:], expected, atol=1e-4)
    assert frequencies(Sampling())[:2].sum() == 0


def test_temperature_sharpens_and_blurs():
    expected = softmax(np.array([2.0, 1.0, 0.0, -1.0, 1.5]) / 0.5)
    np.testing.assert_allclose(frequencies(Sampling(temperature=0.5))[2:], expected, atol=1e-4)


def test_top_k_leaves_the_likeliest():
    np.testing.assert_allclose(frequencies(Sampling(top_k=2))[[2, 6]], softmax([2.0, 1.5]), atol=1e-4)
    assert frequencies(Sampling(top_k=2))[[3, 4, 5]].sum() == 0
    assert frequencies(Sampling(top_k=1))[2] == 1
    np.testing.assert_allclose(frequencies(Sampling(top_k=99)), frequencies(Sampling()), atol=1e-4)


def test_top_p_leaves_the_fewest_that_reach_it():
    p = np.sort(softmax([2.0, 1.0, 0.0, -1.0, 1.5]))[::-1]
    share = p[0] + p[1] / 2  # the second is needed to reach it
    np.testing.assert_allclose(frequencies(Sampling(top_p=share))[[2, 6]], softmax([2.0, 1.5]), atol=1e-4)
    assert frequencies(Sampling(top_p=1e-9))[2] == 1
    np.testing.assert_allclose(frequencies(Sampling(top_p=1.0)), frequencies(Sampling()), atol=1e-4)


def test_what_was_said_becomes_less_likely():
    said = torch.tensor([[2, 5, 2]])
    expected = softmax([2.0 / 1.5, 1.0, 0.0, -1.0 * 1.5, 1.5])
    np.testing.assert_allclose(frequencies(Sampling(repetition_penalty=1.5), said)[2:], expected, atol=1e-4)


def test_probabilities_are_the_models_own_whatever_the_sampling():
    p = softmax([2.0, 1.0, 0.0, -1.0, 1.5])
    ids, found = draw(LOGITS, NOTHING, Sampling(greedy=True, temperature=9, repetition_penalty=3), np.zeros(1))
    assert (int(ids), float(found)) == (2, pytest.approx(p[0], rel=1e-5))


@pytest.mark.parametrize("u", [0.0, 1 - 1e-16, 1.0])
def test_the_ends_of_chance_are_tokens(u):
    for sampling in (Sampling(), Sampling(top_k=3), Sampling(top_p=0.5)):
        ids, p = draw(LOGITS, NOTHING, sampling, np.array([u]))
        assert int(ids) >= 2
        assert float(p) > 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"temperature": 0}, "above 0, not 0; for the likeliest use --greedy"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_k": 0}, "top-k must be at least 1"),
        ({"top_p": 0.0}, "top-p must be above 0"),
        ({"top_p": 1.5}, "top-p"),
        ({"repetition_penalty": 0}, "repetition penalty"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        Sampling(**wrong)


def test_texts_and_their_ends():
    trained = made()
    one = generate(trained, "abc", tokens=5)[0]
    assert len(one.tokens) == len(one.probabilities) == 5
    assert trained.vocabulary.decode([*trained.vocabulary.encode(["abc"])[0], *ids(trained, one)]) == "abc" + one.text
    assert generate(trained, "", tokens=3)[0].prompt == ""
    with pytest.raises(InputError, match="classifier"):
        generate(made(SMALL.set("pattern", Full()), classes=3), "abc")
    with pytest.raises(InputError, match="at least one token"):
        generate(trained, "abc", tokens=0)


def ids(trained, generated):
    names = trained.vocabulary.names()
    return [names.index(token) for token in generated.tokens]


def test_a_band_that_slides_out_of_sight():
    """A cache longer than the window of the pattern: what is out of reach has no say."""
    model = made(SMALL.set("pattern", Causal() & Local(2))).model.double()
    assert ids_of(model, 30) == ids_of(model, 30, cached=False)


@pytest.mark.parametrize("part", variants(), ids=str)
def test_the_lean_copy_is_the_model(part):
    """The same bits, for every part; and the very weights, not copies of them."""
    model = made(causal_spec(part), stir=0.1).model
    copy, ids = lean(model), torch.tensor([[70, 80, 90, 100]])
    with torch.inference_mode():
        assert torch.equal(copy(ids), model(ids))
        for p in model.parameters():
            p.mul_(1.5)
        assert torch.equal(copy(ids), model(ids))
    assert type(copy) is not type(model)
    assert isinstance(copy, type(model))


def test_a_model_that_is_watched_is_not_copied():
    model, seen = made().model, []
    handle = model.trunk.blocks[0].attention.q.register_forward_hook(lambda *_: seen.append(1))
    assert lean(model) is model
    ids_of(model, 3, samples=1)
    assert len(seen) == 3
    handle.remove()
    assert lean(model) is not model
    assert lean(model.train()) is model


TEXT = "Café 🙂 naïve, don't! שלום e\u0301 " * 3


@pytest.mark.parametrize("tokenizer", [Byte(), Character(), Word(), Bpe(vocab=300)], ids=str)
@pytest.mark.parametrize("prompt", ["", "Café 🙂", "never seen"])
def test_text_as_it_comes_is_the_text_at_the_end(tokenizer, prompt):
    vocabulary = tokenizer.learn(iter([TEXT]))
    model = LanguageModel(SMALL.set("init", InitSpec.torch()), vocabulary.size).eval()
    trained = replace(made(), vocabulary=vocabulary, model=model)
    asked = {"tokens": 60, "sampling": Sampling(seed=2)}
    screen = io.StringIO()
    write_along(trained, prompt, screen, **asked)
    assert screen.getvalue() == prompt + generate(trained, prompt, **asked)[0].text + "\n"


@pytest.mark.parametrize("length", [2, 11, 12, 13, 14, 18, 19, 20, 100, 101])
@pytest.mark.parametrize("block", [1, 2, 5, 12])
def test_a_long_text_is_scored_as_if_window_by_window(length, block, monkeypatch):
    monkeypatch.setattr(predict, "AT_ONCE", 3 * block)
    trained = made(SMALL.set("block", block))
    text = "".join(chr(97 + n * n % 26) for n in range(length))
    ids = torch.from_numpy(trained.vocabulary.encode([text])[0].astype(np.int64))
    half, wanted = block // 2, [None]
    with torch.inference_mode():
        for n in range(1, length):  # each token after what its window shows of those before it
            start = 0 if n <= block else -(-(n - block) // (block - half)) * (block - half)
            logits = trained.model(ids[None, start:n])[0, -1]
            wanted.append(float(-logits.log_softmax(dim=-1)[ids[n]]))
    assert predict.score(trained, text).losses == pytest.approx(wanted, abs=1e-5)


def test_bytes_that_are_no_character_are_named_as_bytes():
    names = Bpe(vocab=300).learn(iter(["any text"])).names()
    assert r"\xf0" in names
    assert not any("ð" in name for name in names)
