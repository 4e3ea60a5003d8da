"""Surgery: a head is silenced exactly, and its effect is paired by text and seed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from headtohead import InputError, load_file, load_trained
from headtohead.data.corpora import Files
from headtohead.interpret.surgery import Operation, Surgery, changed_copy, operated, operations, reading, surgery
from headtohead.model.hooks import capture
from headtohead.run import store
from headtohead.run.named import load
from helpers.checkpoints import WORDS
from helpers.models import SMALL, as_if_trained
from helpers.registry import forgotten
from helpers.terminal import h2h, refused


def test_silencing_a_head_removes_its_output_columns(snapshot_home, ids):
    """Silencing head 1 of layer 0 is the output projection without that head's columns."""
    import torch

    record = store.find_run(ids[0], snapshot_home)
    trained = load_trained(record)
    op = next(o for o in operations(trained.model) if (o.layer, o.head) == (0, 1))
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


def test_one_head_is_averaged_and_two_are_swapped(snapshot_home, ids):
    """Swapping heads is swapping their columns of the output projection; a copy shares weights and changes nothing."""
    import torch

    trained = load_trained(store.find_run(ids[0], snapshot_home))
    x, d = torch.arange(2, 12)[None], trained.model.spec.dims.head_width
    with torch.inference_mode():
        plain = trained.model(x)
        swapped = changed_copy(trained, [Operation("swap", 1, 0, other=1)])
        averaged = changed_copy(trained, [Operation("average", 1, 0, average=True)])
        both = changed_copy(trained, [Operation("silence", 1, 0), Operation("swap", 1, 0, other=1)])
        other = load_trained(trained.record).model
        out = other.trunk.blocks[1].attention.out.weight
        out.copy_(torch.cat([out[:, d:], out[:, :d]], dim=1))
        torch.testing.assert_close(swapped.model(x), other(x), atol=1e-6, rtol=0)
        out[:, :d] = 0  # head 0 is silenced, and then takes the place of head 1
        torch.testing.assert_close(both.model(x), other(x), atol=1e-6, rtol=0)
        seen = {}
        for name, one in (("plain", trained), ("averaged", averaged)):
            with capture(one.model, "*1.attention.out", read=lambda inputs, _: inputs[0]) as found:
                one.model(x)
            seen[name] = next(iter(found.values()))[0].unflatten(-1, (2, d))
        torch.testing.assert_close(seen["averaged"][..., 0, :], seen["plain"].mean(dim=-2))
        assert (seen["averaged"][..., 1, :] == seen["plain"][..., 1, :]).all()
        assert (trained.model(x) == plain).all()
    assert swapped.model.trunk.tokens.weight is trained.model.trunk.tokens.weight


@pytest.mark.parametrize(
    ("setting", "layer", "head", "columns"),
    [
        ("mixer=LinearAttention + Attention", 1, 2, slice(8, 12)),
        ("mixer=Latent + Attention", 0, 2, slice(8, 12)),
        ("mixer=Differential", 1, 1, slice(8, 16)),  # half as many heads, twice as wide
    ],
)
def test_the_named_head_is_silenced_in_any_mixer(setting, layer, head, columns):
    import torch

    name, _, value = setting.partition("=")
    trained = as_if_trained(SMALL.set(name, value))
    op = next(o for o in operations(trained.model) if (o.layer, o.head) == (layer, head))
    x = torch.arange(2, 12)[None]
    with torch.inference_mode():
        with operated(trained.model, op):
            quiet = trained.model(x)
        assert not torch.allclose(quiet, trained.model(x))
        trained.model.trunk.blocks[layer].attention.out.weight[:, columns] = 0
        torch.testing.assert_close(quiet, trained.model(x), atol=1e-6, rtol=0)


HEADLESS = '''
from typing import ClassVar

from headtohead import Mixer, MixerHooks


class Headless(Mixer):
    """The mean of all tokens so far."""

    equation: ClassVar[str] = "Σ_j≤i x_j / i"
    reference: ClassVar[str] = "none"

    def build(self, layer):
        return HeadlessHooks()


class HeadlessHooks(MixerHooks):
    def forward(self, x, mask, position, cache, memo):
        allowed = mask.allowed[:, 0].to(x.dtype)
        return allowed @ x / allowed.sum(dim=-1, keepdim=True)
'''


def test_layers_without_heads_are_left_out(tmp_path):
    (tmp_path / "headless.py").write_text(HEADLESS)
    with forgotten():
        load_file(tmp_path / "headless.py")
        model = as_if_trained(SMALL.set("mixer", "Headless + Attention")).model
        assert {op.layer for op in operations(model)} == {None, 1}
        with pytest.raises(InputError, match="Headless has no heads that could be silenced") as error:
            operations(as_if_trained(SMALL.set("mixer", "Headless")).model)
        assert "\n" not in str(error.value)


def data(folder: Path, labels: list[str]) -> Path:
    rows = [f"{' '.join(WORDS[n % 9 : n % 9 + 5])} {WORDS[n % 7]},{labels[n % len(labels)]}" for n in range(60)]
    path = folder / "mine.csv"
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    return path


def done(found) -> Surgery:
    *_, last = found
    return last


@pytest.mark.usefixtures("offline")
def test_heads_of_a_checkpoint_are_silenced(checkpoint, tmp_path):
    (tmp_path / "mine.txt").write_text("\n".join(" ".join(WORDS[n % 5 :]) for n in range(40)) + "\n")
    said = h2h("heads", checkpoint("gpt2"), "--data", "mine.txt", "--items", 8, "--json")
    assert said.code == 0, said.err
    assert said.json["runs"] == [str(checkpoint("gpt2"))]
    assert len([e for e in said.json["effects"] if e["head"] is not None]) == 12
    assert any(abs(e["difference"]) > 1e-3 for e in said.json["effects"])
    refused(h2h("heads", checkpoint("gpt2")), "without texts: give some with --data")


@pytest.mark.usefixtures("offline")
def test_classes_of_the_data_are_matched_to_the_model(checkpoint, tmp_path):
    """Whatever the order of its labels, the same texts have the same loss."""
    folder = Path(shutil.copytree(checkpoint("bert-classifier"), tmp_path / "named"))
    config = json.loads((folder / "config.json").read_text())
    losses = []
    for labels, written in ((["zeal", "calm", "mild"], ["Zeal", "calm", "MILD"]), (None, ["0", "1", "2"])):
        config["id2label"] = {str(n): name for n, name in enumerate(labels or ["LABEL_0", "LABEL_1", "LABEL_2"])}
        (folder / "config.json").write_text(json.dumps(config))
        corpus = Files(path=str(data(tmp_path, written)))
        trained = reading(load(str(folder)), corpus)
        found = done(surgery([trained], items=40))
        assert found.models == str(folder)
        losses.append(found.loss)
        assert sorted(trained.labels) == sorted(config["id2label"].values())
    assert trained.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    data(tmp_path, ["calm", "war"])
    refused(h2h("heads", folder, "--data", "mine.csv"), "calm, war", "LABEL_0")
    data(tmp_path, ["0", "1"])
    refused(h2h("heads", folder, "--data", "mine.csv"), "rename the labels of the data like those of the model")
