"""The page Inside: its numbers are those of the commands, and what cannot be shown is said in one sentence."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.run.studies import find_arm
from headtohead.web.inside import text_of, whole
from helpers.inside import Insides
from helpers.terminal import Type
from helpers.web import Served, served

TEXT = "the people of this union will"
SIDE = {"study": "pair", "arm": "Rope", "seed": 1}


def asked(server: Served, what: str, **body: Any) -> Any:
    status, answer, _ = server.request(f"/api/inside/{what}/look", body)
    assert status == 200, answer
    return answer


def lines(server: Served, what: str, **body: Any) -> list[Any]:
    status, answer, _ = server.request(f"/api/inside/{what}/look", body)
    assert status == 200, answer
    return [json.loads(line) for line in answer.decode().splitlines()]


def unpacked(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


# -- the same numbers as the commands ----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [None, 0, 3])
def test_maps_are_those_of_attend(server: Served, type_in: Type, step: int | None):
    text = TEXT[:14]  # fits into the block
    found = asked(server, "side", **SIDE, step=step, text=text)
    options = [] if step is None else ["--step", step]
    said = type_in("attend", "pair/Rope@1", text, "--json", *options).json[0]
    n = said["real"]
    assert found["step"] == said["step"] == (6 if step is None else step)
    assert found["tokens"] == said["tokens"][:n]
    assert [name for name, _ in found["says"]["next"][:5]] == [a["says"] for a in said["answers"]]
    assert [p for _, p in found["says"]["next"][:5]] == pytest.approx([a["p"] for a in said["answers"]], rel=1e-5)
    weights = np.array(said["weights"], np.float32)[:, :, :n, :n]
    cells = unpacked(found["cells"], "u1").reshape(weights.shape)
    np.testing.assert_allclose((cells / 255) ** 2, weights, atol=0.005)
    for layer in (0, 1):
        for head in (0, 1):
            one = asked(server, "head", **SIDE, step=step, text=text, layer=layer, head=head)
            assert (unpacked(one["weights"], "<f4").reshape(n, n) == weights[layer, head]).all()


def test_scores_are_those_of_score(server: Served, type_in: Type):
    found = asked(server, "side", **SIDE, text=TEXT)["says"]
    said = type_in("score", "pair/Rope@1", TEXT, "--json").json
    assert {key: found[key] for key in said} == said


def test_classes_are_those_of_classify(server: Served, type_in: Type):
    found = asked(server, "side", study="moods", arm="Learned", seed=0, text="good times")["says"]
    said = type_in("classify", "moods/Learned@0", "good times", "--json").json[0]
    assert (found["classes"], found["label"]) == (said["probabilities"], said["label"])


@pytest.mark.parametrize(
    ("options", "decoding"),
    [
        ([], {}),
        (["--temperature", 0.7, "--top-k", 9, "--seed", 4], {"temperature": 0.7, "top_k": 9, "seed": 4}),
        (["--top-p", 0.8, "--seed", 1], {"top_p": 0.8, "seed": 1.0, "top_k": None}),
        (["--greedy"], {"greedy": True}),
    ],
)
def test_generated_tokens_are_those_of_generate(server: Served, type_in: Type, options: list[Any], decoding: Any):
    *told, end = lines(server, "generate", **SIDE, step=3, text=TEXT, tokens=30, decoding=decoding)
    said = type_in("generate", "pair/Rope@1", TEXT, "--tokens", 30, "--step", 3, "--json", *options).json[0]
    assert end == {"done": True}
    tokens = [token for piece in told for token in piece["tokens"]]
    assert [name for name, _ in tokens] == said["tokens"]
    assert [p for _, p in tokens] == pytest.approx(said["probabilities"])
    assert "".join(piece["text"] for piece in told) == said["text"]


@pytest.mark.parametrize(("study", "arm"), [("pair", "Rope"), ("moods", "Learned")])
def test_effects_are_those_of_heads(server: Served, insides: Insides, type_in: Type, study: str, arm: str):
    told = lines(server, "effect", study=study, arm=arm, seed=0, operations="silence:0.1")
    sample, *whole_set = [one for one in told if "difference" in one]
    said = type_in("heads", f"{study}/{arm}@0", "--alone", "--set", "test", "--json").json
    effect = next(e for e in said["effects"] if e["operation"] == "silence 0.1")
    assert sample["set"] == "test"
    assert sample["before"] == pytest.approx(said["loss"], abs=1e-12)
    assert sample["difference"] == pytest.approx(effect["difference"], abs=1e-12)
    assert (sample["low"], sample["high"]) == (effect["items"]["low"], effect["items"]["high"])
    last = whole_set[-1] if whole_set else sample
    assert last["items"] == last["of"]
    result = find_arm(f"{study}/{arm}@0", insides.home).records[0].require_result()
    assert last["before"] == pytest.approx(result.values["test/loss"], abs=1e-6)


def test_a_sample_comes_before_the_whole_set(server: Served, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headtohead.web.effects.ITEMS", 8)
    monkeypatch.setattr("headtohead.interpret.surgery.ITEMS", 8)
    monkeypatch.setattr("headtohead.interpret.surgery.sampling_task.__defaults__", (8,))
    monkeypatch.setattr("headtohead.web.effects.OFTEN", 0.0)
    told = lines(server, "effect", study="pair", arm="Learned", seed=1, operations="swap:1.0:1", set="validation")
    found = [one for one in told if "difference" in one]
    assert [one["items"] < one["of"] for one in found] == [True, False]
    assert found[0]["items"] == 8
    shares = [one["share"] for one in told[told.index(found[0]) :] if "share" in one]
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1


# -- operations and long texts -----------------------------------------------------------------------------------------


def test_operations_change_the_text_and_not_the_kept_model(server: Served):
    plain = asked(server, "side", **SIDE, text=TEXT)
    silent = asked(server, "side", **SIDE, text=TEXT, operations="silence:0.0,average:1.1,swap:0.0:1")
    again = asked(server, "side", **SIDE, text=TEXT)
    assert plain == again
    assert plain["before"] is None
    assert silent["before"]["loss"] == plain["says"]["loss"] != silent["says"]["loss"]


def test_a_long_text_is_binned_and_a_region_is_exact(server: Served, insides: Insides):
    run = {"study": "", "arm": insides.long.id, "seed": 0, "text": (TEXT + " ") * 20}
    found = asked(server, "side", **run)
    size = len(found["edges"]) - 1
    assert (len(found["tokens"]), size) == (256, 86)
    assert found["cut"] > 0
    assert len(unpacked(found["cells"], "u1")) == 4 * size**2
    whole_map = asked(server, "head", **run, layer=1, head=0)
    rows = unpacked(whole_map["weights"], "<f4").reshape(128, 128)
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-5)
    part = asked(server, "head", **run, layer=1, head=0, region="200-216-10-42")
    exact = unpacked(part["weights"], "<f4").reshape(16, 32)
    assert (part["queries"][0], part["keys"][-1]) == (200, 42)
    np.testing.assert_allclose(rows[100, 5:21], exact[:2].reshape(2, 16, 2).sum(axis=2).mean(axis=0), atol=1e-6)


def test_layers_without_maps_are_named(server: Served, insides: Insides):
    run = {"study": "", "arm": insides.mixed.id, "seed": 0, "text": TEXT[:14]}
    found = asked(server, "side", **run)
    assert (found["layers"], found["mapped"], found["without"]) == (2, [1], {"0": "LinearAttention"})
    n = len(found["tokens"])
    cells = unpacked(found["cells"], "u1").reshape(1, 2, n, n)
    one = asked(server, "head", **run, layer=1, head=0)
    weights = unpacked(one["weights"], "<f4").reshape(n, n)
    np.testing.assert_allclose((cells[0, 0] / 255) ** 2, weights, atol=0.005)
    status, answer, _ = server.request("/api/inside/head/look", {**run, "layer": 0, "head": 0})
    assert status == 400
    assert "layer 0 is LinearAttention, which computes no attention weights" in answer["error"]
    silenced = asked(server, "side", **run, operations="silence:0.1")
    assert silenced["says"] != found["says"], "heads of linear attention can be silenced"


def test_a_short_question_may_be_in_the_address(server: Served):
    status, answer, _ = server.request("/api/inside/side/look?study=pair&arm=Rope&seed=1&step=3&text=the%20union")
    assert status == 200
    assert answer == asked(server, "side", **SIDE, step=3, text="the union")


def test_one_token_has_a_next_token_and_no_loss(server: Served):
    says = asked(server, "side", **SIDE, text="a")["says"]
    assert says["loss"] is None
    assert "fewer than two tokens" in says["why"]
    assert len(says["next"]) == 10


def test_held_out_text_fits_into_the_block(server: Served):
    assert len(asked(server, "held", **SIDE)["text"]) == 16
    assert "times" in asked(server, "held", study="moods", arm="Rope", seed=0)["text"]


# -- choices -----------------------------------------------------------------------------------------------------------


def test_studies_arms_seeds_and_steps_are_listed(server: Served, insides: Insides):
    status, answer, _ = server.request("/api/inside/arms?study=pair")
    assert status == 200
    assert [arm["arm"] for arm in answer["arms"]] == ["Learned", "Rope"]
    assert [(one["seed"], one["steps"], one["says"]) for one in answer["arms"][1]["seeds"]] == [
        (0, [0, 3, 6], ""),
        (1, [0, 3, 6], ""),
    ]
    _, found, _ = server.request("/api/inside")
    assert "short" in found["samples"]
    _, single, _ = server.request("/api/inside/arms")
    says = {arm["arm"]: arm["seeds"][0]["says"] for arm in single["arms"]}
    assert says[insides.long.id] == ""
    assert "is not complete" in says[insides.bad["unfinished"].id]
    assert "is damaged: " in says[insides.bad["no spec"].id]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("no weights", "is damaged: model.safetensors"),
        ("damaged", "is damaged: model.safetensors"),
        ("unfinished", "is not complete: continue it first"),
        ("no vocabulary", "is damaged: tokenizer.json"),
        ("no spec", "run.json"),
    ],
)
def test_a_run_that_cannot_be_loaded_gives_a_sentence(server: Served, insides: Insides, what: str, says: str):
    run = {"study": "", "arm": insides.bad[what].id, "seed": 0, "text": TEXT}
    for address, more in (("side", {}), ("generate", {"tokens": 3}), ("head", {"layer": 0, "head": 0})):
        status, answer, _ = server.request(f"/api/inside/{address}/look", run | more)
        assert (status, "\n" in answer["error"]) == (400, False)
        assert says in answer["error"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"study": "../pair"}, "there is no study"),
        ({"study": "", "arm": "../../etc"}, "there is no run"),
        ({"study": "", "arm": ""}, "there is no run"),
        ({"study": "", "arm": ["x"]}, "cannot be understood: arm"),
        ({"arm": "Alibi"}, "has no arm 'Alibi'"),
        ({"seed": 7}, "has no seed 7: it has 0, 1"),
        ({"seed": "x"}, "seed must be a whole number"),
        ({"seed": True}, "seed must be a whole number"),
        ({"step": 5}, "has no weights of step 5"),
        ({"step": -1}, "step must be a whole number"),
        ({"text": ""}, "the text has no token"),
        ({"text": 3}, "cannot be understood: text"),
        ({"text": "x" * 50_001}, "50,001 characters"),
        ({"operations": "silence:9.0"}, "there is no head 9.0: the model has 2 layers of 2 heads"),
        ({"operations": "explode:0.0"}, "is no operation on a head"),
        ({"operations": "swap:0.0"}, "is no operation on a head"),
        ({"operations": "silence:0.0:1"}, "is no operation on a head"),
        ({"operations": {}}, "cannot be understood: operations"),
        ({"other": 1}, "cannot be understood"),
    ],
)
def test_a_wrong_question_gets_a_sentence(server: Served, change: dict[str, Any], says: str):
    status, answer, _ = server.request("/api/inside/side/look", {**SIDE, "text": TEXT, **change})
    assert status in (400, 404)
    assert says in answer["error"]
    assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokens": 0}, "1 to 5,000 tokens, not 0"),
        ({"tokens": 10**9}, "use h2h generate"),
        ({"tokens": None}, "tokens must be a whole number"),
        ({"decoding": 3}, "how to draw tokens"),
        ({"decoding": {"temperature": 0}}, "temperature must be above 0"),
        ({"decoding": {"temperature": "hot"}}, "temperature must be a number"),
        ({"decoding": {"top_k": 1.5}}, "top-k must be a whole number, not 1.5"),
        ({"decoding": {"top_p": 2}}, "top-p must be above 0"),
        ({"decoding": {"seed": -1}}, "a seed is a whole number"),
        ({"study": "moods", "arm": "Rope", "seed": 0}, "is a classifier"),
    ],
)
def test_a_wrong_continuation_gets_a_sentence(server: Served, change: dict[str, Any], says: str):
    status, answer, _ = server.request("/api/inside/generate/look", {**SIDE, "text": TEXT, "tokens": 5, **change})
    assert status == 400
    assert says in answer["error"]


def test_effects_need_an_operation_and_a_set_that_exists(server: Served):
    status, answer, _ = server.request("/api/inside/effect/look", SIDE)
    assert (status, "no head is changed" in answer["error"]) == (400, True)
    *_, last = lines(server, "effect", **SIDE, operations="silence:0.0", set="nowhere")
    assert "there is no held-out set 'nowhere'" in last["error"]


def test_numbers_and_texts_are_read_strictly():
    assert (whole("12", "step"), whole(3, "step")) == (12, 3)
    assert text_of("a\ud83d") == "a?"


def test_a_store_without_runs_is_empty(tmp_path: Path):
    with served(tmp_path) as empty:
        assert empty.request("/api/inside")[1]["studies"] == []
        assert empty.request("/api/inside/arms")[1] == {"arms": []}
        assert empty.request("/api/inside/arms?study=x")[0] == 404
