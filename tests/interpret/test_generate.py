"""Generation: the cached way is the uncached way, chance is what it says, and windows slide alike for both."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from headtohead import Causal, Full, InputError, Local, Reweight
from headtohead.interpret.generate import (
    Cached,
    Decoding,
    Uncached,
    continued,
    draw,
    generate,
    looks_ahead,
    next_tokens,
    stream,
    window_start,
)
from helpers.models import SMALL, as_if_trained, causal_spec, variants

PROMPT = torch.tensor([70, 80, 90])


def ids_of(model, tokens, samples=2, decoding=None, cached=True):
    found = continued(model, PROMPT, tokens, samples, decoding or Decoding(top_k=20), cached=cached)
    return [token.ids for token in found]


@pytest.mark.parametrize("part", variants(), ids=str)
def test_cached_generation_has_the_logits_of_uncached(part):
    """Every part, past the block: the same logits for every prediction, to rounding."""
    model = as_if_trained(causal_spec(part), stir=0.1).model.double()
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


@pytest.mark.parametrize("decoding", [Decoding(greedy=True), Decoding(top_k=5), Decoding(top_p=0.8), Decoding()])
def test_cached_generation_gives_the_text_of_uncached(decoding):
    model = as_if_trained().model.double()
    assert ids_of(model, 40, decoding=decoding) == ids_of(model, 40, decoding=decoding, cached=False)


@pytest.mark.parametrize("spec", [SMALL.set("pattern", Full()), SMALL.set("fusion", Reweight(over="sequence"))])
def test_a_model_that_reads_ahead_is_not_cached(spec):
    model = as_if_trained(spec).model.double()
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
    trained = as_if_trained()
    made_of = generate(trained, "a prompt of more than twelve bytes", tokens=4, decoding=Decoding(greedy=True))
    plain = generate(
        trained, "a prompt of more than twelve bytes", tokens=4, decoding=Decoding(greedy=True), cached=False
    )
    assert made_of[0].tokens == plain[0].tokens
    assert made_of[0].probabilities == pytest.approx(plain[0].probabilities, rel=1e-5)


def test_seeds_and_samples_give_different_texts():
    model = as_if_trained().model
    first, again = ids_of(model, 15, 3), ids_of(model, 15, 3)
    assert first == again
    assert len({tuple(ids[n] for ids in first) for n in range(3)}) == 3, "samples differ"
    assert ids_of(model, 15, 3, Decoding(top_k=20, seed=1)) != first
    alone = ids_of(model.double(), 15, 1)
    assert [ids[:1] for ids in ids_of(model.double(), 15, 3)] == alone, "the first sample is that of one alone"


# -- chance ------------------------------------------------------------------------------------------------------------

LOGITS = torch.tensor([[9.0, 9.0, 2.0, 1.0, 0.0, -1.0, 1.5]])  # the first two are never said
NOTHING = torch.empty(1, 0, dtype=torch.long)


def frequencies(decoding, window=NOTHING, count=20_000):
    u = (np.arange(count) + 0.5) / count  # chance, evenly
    many = LOGITS.expand(count, -1)
    ids, _ = draw(many, window.expand(count, -1), decoding, u)
    return np.bincount(ids.numpy(), minlength=7) / count


def softmax(x):
    e = np.exp(np.array(x) - np.max(x))
    return e / e.sum()


def test_sampled_tokens_follow_the_probabilities():
    expected = softmax([2.0, 1.0, 0.0, -1.0, 1.5])
    np.testing.assert_allclose(frequencies(Decoding())[2:], expected, atol=1e-4)
    assert frequencies(Decoding())[:2].sum() == 0


def test_temperature_sharpens_and_flattens():
    expected = softmax(np.array([2.0, 1.0, 0.0, -1.0, 1.5]) / 0.5)
    np.testing.assert_allclose(frequencies(Decoding(temperature=0.5))[2:], expected, atol=1e-4)


def test_top_k_keeps_the_likeliest_tokens():
    np.testing.assert_allclose(frequencies(Decoding(top_k=2))[[2, 6]], softmax([2.0, 1.5]), atol=1e-4)
    assert frequencies(Decoding(top_k=2))[[3, 4, 5]].sum() == 0
    assert frequencies(Decoding(top_k=1))[2] == 1
    np.testing.assert_allclose(frequencies(Decoding(top_k=99)), frequencies(Decoding()), atol=1e-4)


def test_top_p_keeps_the_fewest_tokens_that_reach_it():
    p = np.sort(softmax([2.0, 1.0, 0.0, -1.0, 1.5]))[::-1]
    share = p[0] + p[1] / 2  # the second is needed to reach it
    np.testing.assert_allclose(frequencies(Decoding(top_p=share))[[2, 6]], softmax([2.0, 1.5]), atol=1e-4)
    assert frequencies(Decoding(top_p=1e-9))[2] == 1
    np.testing.assert_allclose(frequencies(Decoding(top_p=1.0)), frequencies(Decoding()), atol=1e-4)


def test_the_repetition_penalty_lowers_repeated_tokens():
    said = torch.tensor([[2, 5, 2]])
    expected = softmax([2.0 / 1.5, 1.0, 0.0, -1.0 * 1.5, 1.5])
    np.testing.assert_allclose(frequencies(Decoding(repetition_penalty=1.5), said)[2:], expected, atol=1e-4)


def test_reported_probabilities_ignore_the_sampling():
    p = softmax([2.0, 1.0, 0.0, -1.0, 1.5])
    ids, found = draw(LOGITS, NOTHING, Decoding(greedy=True, temperature=9, repetition_penalty=3), np.zeros(1))
    assert (int(ids), float(found)) == (2, pytest.approx(p[0], rel=1e-5))


@pytest.mark.parametrize("u", [0.0, 1 - 1e-16, 1.0])
def test_draws_at_0_and_1_are_tokens(u):
    for decoding in (Decoding(), Decoding(top_k=3), Decoding(top_p=0.5)):
        ids, p = draw(LOGITS, NOTHING, decoding, np.array([u]))
        assert int(ids) >= 2
        assert float(p) > 0


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"temperature": 0}, "above 0, not 0; for the most likely token use --greedy"),
        ({"temperature": math.nan}, "temperature"),
        ({"top_k": 0}, "top-k must be at least 1"),
        ({"top_p": 0.0}, "top-p must be above 0"),
        ({"top_p": 1.5}, "top-p"),
        ({"repetition_penalty": 0}, "repetition penalty"),
    ],
)
def test_senseless_decoding_options_are_refused(wrong, says):
    with pytest.raises(InputError, match=says):
        Decoding(**wrong)


def test_generated_text_continues_the_prompt():
    trained = as_if_trained()
    one = generate(trained, "abc", tokens=5)[0]
    assert len(one.tokens) == len(one.probabilities) == 5
    assert trained.vocabulary.decode([*trained.vocabulary.encode(["abc"])[0], *ids(trained, one)]) == "abc" + one.text
    assert generate(trained, "", tokens=3)[0].prompt == ""
    with pytest.raises(InputError, match="classifier"):
        generate(as_if_trained(SMALL.set("pattern", Full()), classes=3), "abc")
    with pytest.raises(InputError, match="at least one token"):
        generate(trained, "abc", tokens=0)


def ids(trained, generated):
    names = trained.vocabulary.names()
    return [names.index(token) for token in generated.tokens]


def test_a_local_window_slides_past_the_prompt():
    """A cache longer than the window of the pattern: what is out of reach has no say."""
    model = as_if_trained(SMALL.set("pattern", Causal() & Local(2))).model.double()
    assert ids_of(model, 30) == ids_of(model, 30, cached=False)


@pytest.mark.parametrize("prompt", ["", "we", "we the people of this union " * 4])
def test_next_tokens_are_those_that_generation_draws_from(prompt):
    trained = as_if_trained()
    found = next_tokens(trained, prompt, 300)
    drawn = next(iter(stream(trained, prompt, tokens=1, decoding=Decoding(greedy=True))))
    names, silent = trained.vocabulary.names(), {trained.vocabulary.names()[n] for n in trained.vocabulary.silent}
    likely = [(name, p) for name, p in found if name not in silent]
    assert sum(p for _, p in found) == pytest.approx(1)
    assert likely[0][0] == names[drawn.ids[0]]
    assert likely[0][1] / sum(p for _, p in likely) == pytest.approx(drawn.probabilities[0], rel=1e-4)
