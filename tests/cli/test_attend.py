"""h2h attend, heads, generate, score on runs in a store: what is printed, written and refused."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from headtohead import load_trained
from headtohead.run import store
from helpers.terminal import h2h

# -- attend ------------------------------------------------------------------------------------------------------------


def test_attend_describes_heads_and_checks(ids):
    done = h2h("attend", ids[0], "the people of our union")
    assert done.code == 0, done.err
    assert "step 40" in done.out
    assert "next token" in done.out
    assert "✓ future: nothing above the diagonal" in done.out
    assert done.out.count("✗") == 0
    assert "1.1" in done.out


def test_attend_json_holds_the_weights(snapshot_home, ids):
    said = h2h("attend", ids[0], "the people", "--layer", 1, "--head", 0, "--step", 20, "--json").json[0]
    from headtohead.interpret.maps import attention

    own = attention(load_trained(store.find_run(ids[0], snapshot_home), 20), "the people").only([1], [0])
    np.testing.assert_allclose(said["weights"], own.weights, atol=1e-7)
    assert (said["step"], said["layers"], said["heads"]) == (20, [1], [0])


@pytest.mark.parametrize("name", ["map.png", "map.svg", "map.html", "deep/er/map.PNG"])
def test_attend_draws_in_each_format(ids, name):
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


def test_attend_compares_runs_and_draws_films(ids):
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
        (["a text", "--step", "17"], "has no weights of step 17: it has [0, 10, 20, 30, 40]"),
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


def test_attend_evolution_without_snapshots_names_the_setting(ids):
    for arguments in (["--evolution"], ["text", "--film", "--layer", "0", "--head", "0", "--out", "f.png"]):
        done = h2h("attend", ids[2], *arguments)
        assert done.code == 2
        assert "evaluate.snapshots=20" in done.err
    assert h2h("attend", ids[2], "text", "--step", 0).code == 0


def test_attend_and_score_know_the_sample_texts(ids):
    done = h2h("attend", ids[0], "--sample", "beyond")
    assert "cut to the block: the first 16 of" in done.out
    table = h2h("score", ids[0], "--sample", "all", "--json").json
    assert set(table) == {"short", "beyond", "normal", "weird", "long"}
    assert len(table["long"]["tokens"]) > len(table["short"]["tokens"])


# -- evolution ---------------------------------------------------------------------------------------------------------


def test_evolution_averages_the_seeds_of_the_arm(ids):
    said = h2h("attend", ids[0], "--evolution", "--out", "e.png", "--json").json
    assert said["seeds"] == [0, 1], "the other seed of the same arm is found, the other arm is not"
    assert said["steps"] == [0, 10, 20, 30, 40]
    assert np.array(said["values"]["entropy"]).shape == (5, 2, 2, 2)
    assert Path("e.png").read_bytes().startswith(b"\x89PNG")
    assert "descriptive only" in said["answer"]


# -- generate ----------------------------------------------------------------------------------------------------------


def test_unreadable_or_unwritable_files_are_one_line(snapshot_home, ids):
    assert "folder that you can write to" in h2h("attend", ids[0], "text", "--out", "/proc/map.png").err
    Path("folder.png").mkdir()
    assert "is a folder" in h2h("attend", ids[0], "text", "--out", "folder.png").err
    record = store.find_run(ids[2], snapshot_home)
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
def test_options_that_do_not_apply_are_refused(ids, arguments, says):
    done = h2h(arguments[0], ids[0], *arguments[1:])
    assert done.code == 2, done.out
    assert says in done.err
    assert done.out == ""


def test_attend_generate_and_score_print_json(ids):
    for command in (["attend", ids[0], "abc"], ["generate", ids[0], "abc"], ["score", ids[0], "abcd"]):
        json.loads(h2h(*command, "--json").out)
