"""h2h attend, heads, generate, score on runs in a store: what is printed, written and refused."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from headtohead import load_trained, store
from headtohead.evaluate import EvalSpec
from headtohead.inspect import evolution as evolutions
from headtohead.inspect.surgery import operated, operations, surgery
from headtohead.tasks import work_on
from headtohead.trained import load_steps, snapshot_steps
from runs.conftest import write_text
from runs.small import h2h, run_on, train

SETTINGS = ["train.steps=40", "model.heads=2", "model.layers=2", "evaluate.snapshots=5"]


@pytest.fixture(scope="module")
def trained_home(tmp_path_factory):
    """Two seeds with five snapshots, and one run without."""
    folder = tmp_path_factory.mktemp("look")
    text = write_text(folder)
    for seed in (0, 1):
        train(run_on(text, *SETTINGS, seed=seed), folder / "home")
    train(run_on(text, "train.steps=5"), folder / "home")
    return folder / "home"


@pytest.fixture(autouse=True)
def home(trained_home, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADTOHEAD_HOME", str(trained_home))
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return trained_home


@pytest.fixture
def ids(home):
    """The two seeds, and the run without snapshots."""
    found = {(r.spec["seed"], len(snapshot_steps(r)) > 0): r.id for r in store.runs(home)}
    return found[0, True], found[1, True], found[0, False]


# -- steps -------------------------------------------------------------------------------------------------------------


def test_so_many_snapshots_are_evenly_spread(home, ids):
    assert snapshot_steps(store.find_run(ids[0], home)) == [0, 10, 20, 30, 40]
    assert EvalSpec(snapshots=3).snapshot_steps(5) == {0, 3, 5}
    assert EvalSpec(snapshots=1).snapshot_steps(5) == {5}
    assert EvalSpec(snapshots=9).snapshot_steps(4) == {0, 1, 2, 3, 4}


def test_the_start_is_had_without_a_snapshot(home, ids):
    kept = store.find_run(ids[0], home)
    before = {k: v.clone() for k, v in load_trained(kept, 0).model.state_dict().items()}
    (kept.folder / "snapshots" / "step-00000000.safetensors").rename(kept.folder / "aside")
    try:
        again = load_trained(kept, 0).model.state_dict()
    finally:
        (kept.folder / "aside").rename(kept.folder / "snapshots" / "step-00000000.safetensors")
    assert all((again[k] == v).all() for k, v in before.items()), "the seed's own weights"


def test_steps_are_loaded_one_after_the_other(home, ids):
    record = store.find_run(ids[0], home)
    seen = [(t.step, t.model.trunk.tokens.weight.clone()) for t in load_steps(record, [0, 20, None])]
    assert [step for step, _ in seen] == [0, 20, 40]
    for step, weight in seen:
        assert (load_trained(record, step).model.trunk.tokens.weight == weight).all()
    assert not (seen[0][1] == seen[1][1]).all()


# -- attend ------------------------------------------------------------------------------------------------------------


def test_attend_says_what_heads_do_and_what_holds(ids):
    done = h2h("attend", ids[0], "the people of our union")
    assert done.code == 0, done.err
    assert "step 40" in done.out
    assert "next token" in done.out
    assert "✓ future: nothing above the diagonal" in done.out
    assert done.out.count("✗") == 0
    assert "1.1" in done.out


def test_attend_as_json_is_the_weights(home, ids):
    said = h2h("attend", ids[0], "the people", "--layer", 1, "--head", 0, "--step", 20, "--json").json[0]
    from headtohead.inspect.maps import attention

    own = attention(load_trained(store.find_run(ids[0], home), 20), "the people").only([1], [0])
    np.testing.assert_allclose(said["weights"], own.weights, atol=1e-7)
    assert (said["step"], said["layers"], said["heads"]) == (20, [1], [0])


@pytest.mark.parametrize("name", ["map.png", "map.svg", "map.html", "deep/er/map.PNG"])
def test_attend_draws(ids, name):
    done = h2h("attend", ids[0], "the people $ 👍 é", "--out", name)
    assert done.code == 0, done.err
    data = Path(name).read_bytes()
    if name.lower().endswith("png"):
        assert data.startswith(b"\x89PNG")
    elif name.endswith("svg"):
        texts = ["".join(e.itertext()) for e in ElementTree.fromstring(data).iter() if e.tag.endswith("}text")]
        assert "layer 1, head 0" in texts
        assert any("step 40" in t for t in texts)
        assert "$" in texts
    else:
        assert b"<!doctype html>" in data[:40].lower()
        assert b"http://" not in data.replace(b"http://www.w3.org/", b"")
    assert f"wrote {name}" in done.err


def test_attend_compares_and_films(ids):
    assert h2h("attend", ids[0], "the people", "--compare", ids[1], "--out", "two.png").code == 0
    assert h2h("attend", ids[0], "the people", "--compare", ids[2], "--out", "two.html").code == 0
    done = h2h("attend", ids[0], "the people", "--film", "--layer", 0, "--head", 1, "--out", "film.svg")
    assert done.code == 0, done.err
    texts = "".join(ElementTree.fromstring(Path("film.svg").read_bytes()).itertext())
    assert all(f"step {step}" in texts for step in (0, 10, 20, 30, 40))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([""], "no token"),
        (["a text", "--layer", "7"], "no layer 7: this model has layers 0 to 1"),
        (["a text", "--head", "2"], "no head 2"),
        (["a text", "--step", "17"], "kept no weights of step 17: it has [0, 10, 20, 30, 40]"),
        (["a text", "--out", "map.gif"], ".png or .svg or .html"),
        (["a text", "--out", "map"], ".png or .svg or .html"),
        (["a text", "--film", "--out", "f.png"], "--layer, --head"),
        (["a text", "--sample", "short"], "not both"),
        ([], "give a text or --sample"),
        (["--sample", "shrot"], "short"),
        (["a text", "--compare", "zzz"], "no run 'zzz'"),
    ],
)
def test_attend_refuses_in_one_line(ids, arguments, says):
    done = h2h("attend", ids[0], *arguments)
    assert done.code == 2
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_a_run_without_snapshots(ids):
    for arguments in (["--evolution"], ["text", "--film", "--layer", "0", "--head", "0", "--out", "f.png"]):
        done = h2h("attend", ids[2], *arguments)
        assert done.code == 2
        assert "evaluate.snapshots=20" in done.err
    assert h2h("attend", ids[2], "text", "--step", 0).code == 0


def test_samples_are_there(ids):
    done = h2h("attend", ids[0], "--sample", "beyond")
    assert "cut to the block: the first 16 of" in done.out
    table = h2h("score", ids[0], "--sample", "all", "--json").json
    assert set(table) == {"short", "beyond", "normal", "weird", "long"}
    assert len(table["long"]["tokens"]) > len(table["short"]["tokens"])


# -- evolution ---------------------------------------------------------------------------------------------------------


def test_evolution_is_over_the_seeds_of_the_arm(ids):
    said = h2h("attend", ids[0], "--evolution", "--out", "e.png", "--json").json
    assert said["seeds"] == [0, 1], "the other seed of the same arm is found, the other arm is not"
    assert said["steps"] == [0, 10, 20, 30, 40]
    assert np.array(said["values"]["entropy"]).shape == (5, 2, 2, 2)
    assert Path("e.png").read_bytes().startswith(b"\x89PNG")
    assert "descriptive only" in said["answer"]


def test_measures_are_their_definitions(home, ids):
    """Query by query, in plain Python."""
    trained = load_trained(store.find_run(ids[0], home))
    work = work_on(trained.spec.arm)
    texts = work.some(work.held_out(), 3)
    found = evolutions.measured(trained, texts)
    import torch

    from headtohead.taps import WEIGHTS, capture

    with torch.inference_mode(), capture(trained.model, WEIGHTS) as seen:
        trained.model(torch.from_numpy(texts.ids))
    for layer, calls in enumerate(seen.values()):
        a = calls[0].double().numpy()  # (B, H, T, T)
        for h in range(2):
            rows = [(a[b, h, i], a[b, 1 - h, i], i) for b in range(len(a)) for i in range(1, a.shape[2])]
            expected = {
                "entropy": [-(r[r > 0] * np.log(r[r > 0])).sum() for r, _, _ in rows],
                "sharpness": [1 + (r[r > 0] * np.log(r[r > 0])).sum() / np.log(i + 1) for r, _, i in rows],
                "distance": [sum(w * abs(i - j) for j, w in enumerate(r)) for r, _, i in rows],
                "self": [r[i] for r, _, i in rows],
                "previous": [r[i - 1] for r, _, i in rows],
                "first": [r[0] for r, _, _ in rows],
                "overlap": [np.minimum(r, o).sum() for r, o, _ in rows],
            }
            for name, values in expected.items():
                assert found[name][layer, h] == pytest.approx(np.mean(values), abs=1e-5), name


# -- heads -------------------------------------------------------------------------------------------------------------


def test_heads_are_silenced_by_hand(home, ids):
    """Silencing head 1 of layer 0 is the output projection without that head's columns."""
    import torch

    record = store.find_run(ids[0], home)
    trained = load_trained(record)
    op = next(o for o in operations(trained.model.spec.dims) if (o.layer, o.head) == (0, 1))
    x = torch.arange(2, 12)[None]
    with torch.inference_mode():
        plain = trained.model(x)
        with operated(trained.model, op):
            quiet = trained.model(x)
        other = load_trained(record).model
        d = other.spec.dims.head_width
        other.trunk.blocks[0].attention.out.weight[:, d : 2 * d] = 0
        torch.testing.assert_close(quiet, other(x), atol=1e-6, rtol=0)
        assert (trained.model(x) == plain).all(), "everything is as before"
    assert not torch.allclose(plain, quiet)


def test_effects_are_paired_by_text_and_by_seed(home, ids):
    said = h2h("heads", ids[0], "--items", 20, "--json", "--out", "h.png").json
    assert said["seeds"] == [0, 1]
    names = [e["operation"] for e in said["effects"]]
    assert names[:6] == [
        "silence 0.0",
        "silence 0.1",
        "silence 1.0",
        "silence 1.1",
        "silence layer 0",
        "silence layer 1",
    ]
    assert {"average", "shuffle", "shift", "reweight"} <= set(names)
    assert "concat" not in names
    *_, alone = surgery([store.find_run(ids[0], home)], items=20)
    effect = next(e for e in said["effects"] if e["operation"] == "silence 1.0")
    assert effect["by_seed"][0] == pytest.approx(alone.effects[2].by_seed[0], abs=1e-9)
    assert effect["difference"] == pytest.approx(np.mean(effect["by_seed"]))
    assert effect["seeds"]["pairs"] == 2
    assert alone.effects[2].seeds is None


def test_heads_on_the_command_line(ids):
    done = h2h("heads", ids[0], "--alone", "--items", 10)
    assert done.code == 0, done.err
    assert "one head less costs" in done.out
    assert h2h("heads", ids[0], "--set", "tset").code == 2
    assert h2h("heads", ids[0], "--out", "h.html").code == 2


# -- generate ----------------------------------------------------------------------------------------------------------


def test_generate_writes(ids):
    once, again = (h2h("generate", ids[0], "the people", "--tokens", 30, "--seed", 3) for _ in range(2))
    assert once.code == 0, once.err
    assert once.out == again.out
    assert once.out.startswith("the people")
    said = h2h("generate", ids[0], "the people", "--tokens", 30, "--seed", 3, "--json").json[0]
    assert "the people" + said["text"] + "\n" == once.out, "streamed or not, it is the same text"
    uncached = h2h("generate", ids[0], "the people", "--tokens", 30, "--seed", 3, "--json", "--uncached").json[0]
    assert uncached["tokens"] == said["tokens"]
    many = h2h("generate", ids[0], "the", "--samples", 3, "--tokens", 5, "--probabilities")
    assert "sample 2" in many.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--temperature", "0"], "--greedy"),
        (["--top-k", "0"], "top-k"),
        (["--top-p", "2"], "top-p"),
        (["--tokens", "0"], "--tokens"),
        (["--step", "3"], "kept no weights"),
    ],
)
def test_generate_refuses_in_one_line(ids, arguments, says):
    done = h2h("generate", ids[0], "the", *arguments)
    assert done.code == 2
    assert says in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_bits_are_those_of_the_bytes_that_were_predicted(ids):
    said = h2h("score", ids[0], "abcd", "--json").json
    nats = sum(x for x in said["losses"] if x is not None)
    assert said["bits_per_byte"] == pytest.approx(nats / np.log(2) / 3)


def test_what_cannot_be_read_or_written_is_one_line(home, ids):
    assert "folder of yours" in h2h("attend", ids[0], "text", "--out", "/proc/map.png").err
    Path("folder.png").mkdir()
    assert "is a folder" in h2h("attend", ids[0], "text", "--out", "folder.png").err
    record = store.find_run(ids[2], home)
    whole = (record.folder / "tokenizer.json").read_text()
    (record.folder / "tokenizer.json").write_text("{")
    done = h2h("generate", ids[2], "text")
    assert (done.code, done.out) == (2, "")
    assert len(done.err.strip().splitlines()) == 1
    (record.folder / "tokenizer.json").write_text(whole)
    (record.folder / "snapshots").mkdir(exist_ok=True)
    (record.folder / "snapshots" / "step-foo.safetensors").write_bytes(b"")
    assert h2h("attend", ids[2], "text", "--out", "m.html").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["attend", "--evolution", "--layer", "9"], "leave out --layer"),
        (["attend", "--evolution", "--sample", "short"], "leave out --sample"),
        (["attend", "text", "--film", "--layer", "0", "--head", "0", "--out", "f.html"], "leave out"),
        (["attend", "text", "--film", "--layer", "0", "--head", "0", "--step", "10", "--out", "f.png"], "leave out"),
        (["score", "text", "--sample", "all"], "not both"),
        (["generate", "text", "--repetition-penalty", "1e-308"], "from 0.01 to 100"),
        (["generate", "text", "--samples", "1000000000"], "more than"),
    ],
)
def test_nothing_is_ignored_in_silence(ids, arguments, says):
    done = h2h(arguments[0], ids[0], *arguments[1:])
    assert done.code == 2, done.out
    assert says in done.err
    assert done.out == ""


def test_everything_there_is_as_json(ids):
    for command in (["attend", ids[0], "abc"], ["generate", ids[0], "abc"], ["score", ids[0], "abcd"]):
        json.loads(h2h(*command, "--json").out)
