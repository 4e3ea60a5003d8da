"""Exported folders: what transformers makes of them is what we compute, say and cut into tokens."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from headtohead import (
    Alibi,
    Bpe,
    Byte,
    Causal,
    Character,
    Disentangled,
    Files,
    First,
    Full,
    Gated,
    HeadSpec,
    LayerNorm,
    Local,
    ModelSpec,
    PerHead,
    PostNorm,
    RMSNorm,
    Rope,
    RunSpec,
    Sandwich,
    Shuffle,
    Sinusoidal,
    Tokenizer,
    Word,
    classify,
    families,
    load_trained,
)
from headtohead import (
    load_file as load_python_file,
)
from headtohead.errors import InputError, Unavailable
from headtohead.export import exported
from headtohead.export.card import _training
from headtohead.export.exported import export, push
from headtohead.interpret.generate import Decoding, generate
from headtohead.run.load import Trained
from headtohead.run.named import load
from headtohead.run.store import Record
from headtohead.spec import is_builtin
from headtohead.study.finetune import arm_for
from helpers.checkpoints import TEXT, WORDS, transformers
from helpers.comparing import randomised
from helpers.models import as_if_trained
from helpers.registry import forgotten
from helpers.runs import run_on, train
from helpers.terminal import h2h

SAME = 1e-5
SIZES = {"width": 16, "heads": 4, "layers": 2, "block": 24}
GPT2 = ModelSpec(**SIZES)
LLAMA = ModelSpec(**SIZES, kv_heads=2, position=Rope(theta=500), norm=RMSNorm(), feedforward=Gated())
BERT = ModelSpec(
    **SIZES,
    pattern=Full(),
    residual=PostNorm(),
    embedding_norm=LayerNorm(),
    pooling=First(),
    head=HeadSpec(hidden=16, activation="tanh"),
)
ODD = ModelSpec(
    **SIZES,
    kv_heads=2,
    head_width=6,
    tied=True,
    head_bias=True,
    position=Disentangled(span=4),
    pattern=Causal() & Local(4),
    fusion=Shuffle(),
    norm=RMSNorm(),
    qk_norm=RMSNorm(),
    residual=Sandwich(),
)


def stirred(spec: ModelSpec, classes: int = 0) -> Trained:
    trained = as_if_trained(spec, classes=classes)
    randomised(trained.model)
    return trained


def same_logits(trained: Trained, theirs, seed: int = 0) -> float:
    """On full texts, and padded on either side where the classes or the model allow for it."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, trained.vocabulary.size, (3, 24), generator=draw)
    keep = torch.arange(24) < torch.tensor([[24], [9], [1]])
    with torch.no_grad():
        ours, out = trained.model(ids, keep), theirs(ids, attention_mask=keep.long()).logits
    real = keep if ours.ndim == 3 else torch.ones(3, dtype=torch.bool)
    return float((ours - out)[real].abs().max())


# -- stock architectures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "architecture"),
    [
        pytest.param(GPT2, "GPT2LMHeadModel", id="our usual model"),
        pytest.param(GPT2.set("tied", True).set("feedforward.activation", "gelu_tanh"), "GPT2LMHeadModel", id="tied"),
        pytest.param(
            GPT2.set("feedforward.bias", False).set("norm.bias", False).set("norm.eps", 0.01).set("dropout", 0.3),
            "GPT2LMHeadModel",
            id="without biases",
        ),
        pytest.param(GPT2.set("feedforward.hidden", 20).set("biases.q", True), "GPT2LMHeadModel", id="hidden 20"),
        pytest.param(GPT2.set("pooling", "Max").set("head.hidden", 7), "GPT2LMHeadModel", id="what is never used"),
        pytest.param(LLAMA, "LlamaForCausalLM", id="grouped queries"),
        pytest.param(
            LLAMA.set("tied", True).set("kv_heads", None).set("biases.out", False).set("feedforward.bias", True),
            "LlamaForCausalLM",
            id="llama, tied",
        ),
        pytest.param(
            LLAMA.set("head_width", 6).set("feedforward.activation", "gelu"), "LlamaForCausalLM", id="wide heads"
        ),
    ],
)
def test_stock_language_models_give_equal_logits(tmp_path, spec, architecture):
    trained = stirred(spec)
    found = export(trained, tmp_path / "out")
    assert (found.architecture, found.stock) == (architecture, True)
    assert found.difference <= SAME
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert type(theirs).__name__ == architecture
    assert same_logits(trained, theirs) <= SAME
    assert not (tmp_path / "out" / exported.CODE).exists()
    assert "trust_remote_code" not in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize("tokens", [15])
@pytest.mark.parametrize("spec", [GPT2, LLAMA, ODD], ids=["gpt2", "llama", "odd"])
def test_exported_models_generate_equal_greedy_texts(tmp_path, spec, tokens):
    """Even where the likeliest token is one that we never say."""
    trained = stirred(spec)
    with torch.no_grad():  # padding or the unknown would often come first
        trained.model.trunk.tokens.weight[:2] *= 6
        if hasattr(trained.model.head, "weight"):
            trained.model.head.weight[:2] *= 6
    folder = export(trained, tmp_path / "out").folder
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    names, silenced = trained.vocabulary.names(), False
    for prompt in ("The p", "union", "é!"):
        (ours,) = generate(trained, prompt, tokens=tokens, decoding=Decoding(greedy=True))
        given = tokenizer(prompt, return_tensors="pt")
        whole = theirs.generate(**given, max_new_tokens=tokens, do_sample=False)[0]
        assert ours.tokens == tuple(names[i] for i in whole[given["input_ids"].shape[1] :])
        with torch.no_grad():
            silenced |= bool((theirs(whole[None]).logits.argmax(dim=-1) < 2).any())
    assert silenced


def test_a_stock_classifier_gives_equal_logits(tmp_path):
    trained = stirred(BERT, classes=3)
    found = export(trained, tmp_path / "out")
    assert (found.architecture, found.stock) == ("BertForSequenceClassification", True)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(found.folder).eval()
    assert same_logits(trained, theirs) <= SAME
    assert theirs.config.id2label == {0: "class 0", 1: "class 1", 2: "class 2"}
    pipeline = transformers.pipeline("text-classification", str(found.folder))
    assert pipeline("the people")[0]["label"].startswith("class ")


@pytest.mark.parametrize(
    ("changed", "differs"),
    [
        ({"position": "Alibi"}, "gpt2, differs in position"),
        ({"pattern": "Causal() & Local(4)"}, "gpt2, differs in pattern"),
        ({"fusion": "Shift"}, "gpt2, differs in fusion"),
        ({"residual": "Sandwich"}, "gpt2, differs in residual"),
        ({"head_bias": True}, "gpt2, differs in head_bias"),
        ({"embedding_norm": "LayerNorm"}, "gpt2, differs in embedding_norm"),
        ({"kv_heads": 2}, "gpt2, differs in kv_heads"),
        ({"head_width": 6}, "gpt2, differs in head_width"),
        ({"norm": "NoNorm"}, "gpt2, differs in norm"),
    ],
)
def test_an_almost_stock_model_is_exported_with_our_code(tmp_path, changed, differs):
    spec = GPT2
    for path, value in changed.items():
        spec = spec.set(path, value)
    trained = stirred(spec)
    found = export(trained, tmp_path / "out")
    assert not found.stock
    assert differs in found.notes[0]
    assert found.difference <= SAME


@pytest.mark.parametrize(
    "change",
    [("pooling", "Mean"), ("head.activation", "relu"), ("head.hidden", 20), ("norm.eps", 0.1), ("pattern", "Local(3)")],
)
def test_an_almost_bert_classifier_is_exported_with_our_code(tmp_path, change):
    found = export(stirred(BERT.set(*change), classes=2), tmp_path / "out")
    assert not found.stock
    assert change[0] in found.notes[0]
    assert found.difference <= SAME


# -- with code of its own ----------------------------------------------------------------------------------------------

WRITTEN = {field.name for field in dataclasses.fields(ModelSpec) if not field.metadata.get("later")}
BUILT_IN = [
    (family, cls())
    for family, members in families().items()
    for cls in members.values()
    if is_builtin(cls) and family in WRITTEN - {"pooling"} and cls is not PerHead
]
MORE = [("position", Alibi(slope=1.0)), ("position", Rope(fraction=0.5)), ("position", Sinusoidal(amplitude=0.1))]


@pytest.mark.parametrize(("family", "part"), [*BUILT_IN, *MORE], ids=str)
def test_every_part_can_be_exported(tmp_path, family, part):
    """ALiBi or a window keeps the model from being stock, so that the part has to be written into the file."""
    spec = GPT2.set("fusion" if family == "position" else "position", "Shift" if family == "position" else "Alibi")
    trained = stirred(spec.set(family, part))
    found = export(trained, tmp_path / "out")
    assert found.difference <= SAME
    if family == "norm":
        qk = stirred(spec.set("qk_norm", part))
        assert export(qk, tmp_path / "qk").difference <= SAME


@pytest.mark.parametrize("pooling", [cls() for cls in families()["pooling"].values() if is_builtin(cls)], ids=str)
def test_every_pooling_can_be_exported(tmp_path, pooling):
    trained = stirred(ModelSpec(**SIZES, pattern=Full(), pooling=pooling), classes=3)
    found = export(trained, tmp_path / "out")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(
        found.folder, trust_remote_code=True
    ).eval()
    assert not found.stock
    assert same_logits(trained, theirs) <= SAME


def test_exported_models_handle_padding_and_losses(tmp_path):
    """Of a model whose heads are weighed by the whole text, padding excluded."""
    odd = ODD.set("fusion", "Reweight(over=sequence)").set("pattern", "Local(3)").set("position", "Sinusoidal")
    ids = torch.randint(2, 200, (3, 12), generator=torch.Generator().manual_seed(0))
    keep = torch.arange(12) >= torch.tensor([[0], [7], [12]])  # the last is nothing but padding
    for classes in (0, 3):
        trained = stirred(odd, classes)
        folder = export(trained, tmp_path / str(classes)).folder
        auto = transformers.AutoModelForSequenceClassification if classes else transformers.AutoModelForCausalLM
        theirs = auto.from_pretrained(folder, trust_remote_code=True).eval()
        labels = torch.tensor([2, 0, 1]) if classes else ids
        with torch.no_grad():
            ours, out = trained.model(ids, keep), theirs(ids, attention_mask=keep.long(), labels=labels)
            plain = theirs(ids, labels=labels)
            whole = trained.model(ids)
        real = torch.ones(3, dtype=torch.bool) if classes else keep
        assert float((ours - out.logits)[real].abs().max()) <= SAME
        assert float((whole - plain.logits).abs().max()) <= SAME
        logits, said = (whole, labels) if classes else (whole[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss = torch.nn.functional.cross_entropy(logits, said)
        assert float(plain.loss) == pytest.approx(float(loss), abs=1e-5)


PROBE = """
import sys, json
sys.modules["headtohead"] = None  # as if it were not installed
import torch, transformers
transformers.logging.set_verbosity_error()
model = transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1], trust_remote_code=True).eval()
ids = torch.tensor(json.loads(sys.argv[2]))
with torch.no_grad():
    print(json.dumps(model(ids).logits.tolist()))
"""


def test_an_export_works_without_headtohead(tmp_path):
    trained = stirred(ODD)
    found = export(trained, tmp_path / "out")
    ids = [[5, 9, 77, 3, 200, 41, 8]]
    command = [sys.executable, "-c", PROBE, str(found.folder), json.dumps(ids)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        ours = trained.model(torch.tensor(ids))
    assert float((torch.tensor(json.loads(done.stdout)) - ours).abs().max()) <= SAME
    code = (found.folder / exported.CODE).read_text()
    assert "import headtohead" not in code
    assert "from headtohead" not in code


OWN = '''
"""A part of somebody's own."""
import math as m
from typing import ClassVar
import torch
from torch import nn
from headtohead import FeedForward, Pattern, PositionHooks, Position, knob
from headtohead.parts.feedforwards import activation

STEEP = 3.0


def steep(x):
    return STEEP * x / m.pi


class Wavy(Position):
    """Waves."""

    equation: ClassVar[str] = "x"
    reference: ClassVar[str] = "nobody"

    rate: float = knob(default=0.5, gt=0, help="turns")

    def build(self, dims):
        return WavyHooks(dims, self.rate)


class WavyHooks(PositionHooks):
    def __init__(self, dims, rate):
        super().__init__()
        self.size = nn.Parameter(torch.randn(dims.width))
        self.register_buffer("rate", torch.tensor(rate), persistent=False)

    def embed(self, x, i):
        return x + self.size * torch.sin(steep(self.rate * i))[..., None]


class Before(Pattern):
    """Strictly: the first token sees nothing at all."""

    equation: ClassVar[str] = "j < i"
    reference: ClassVar[str] = "nobody"

    def allowed(self, i, j):
        return j < i


class Twice(FeedForward):
    """Twice."""

    equation: ClassVar[str] = "x"
    reference: ClassVar[str] = "nobody"

    def build(self, dims):
        return nn.Sequential(nn.Linear(dims.width, dims.width), activation("gelu"))
'''


def test_a_part_of_the_user_is_exported_too(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    with forgotten():
        module = load_python_file(tmp_path / "own.py")
        spec = GPT2.set("position", module.Wavy(rate=0.3)).set("feedforward", module.Twice())
        trained = stirred(spec.set("pattern", module.Before()))
        found = export(trained, tmp_path / "out")
    assert found.difference <= SAME
    assert "no architecture of transformers equals it:" in found.notes[0]
    written = "".join(f.read_text() for f in found.folder.iterdir() if f.suffix != ".safetensors")
    assert str(tmp_path) not in written
    assert "own.py" not in (found.folder / "config.json").read_text()
    theirs = transformers.AutoModelForCausalLM.from_pretrained(found.folder, trust_remote_code=True).eval()
    assert same_logits(trained, theirs) <= SAME


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        ("class Trunk(Position):", "already uses the name 'Trunk'"),
        ("import cmath as math", "already uses the name 'math'"),
    ],
)
def test_a_part_with_a_name_clash_is_not_exported(tmp_path, plant, says):
    code = OWN.replace("class Wavy(Position):", plant) if "class" in plant else OWN.replace("import math as m", plant)
    (tmp_path / "own.py").write_text(code.replace("m.pi", "abs(math.pi)") if "cmath" in plant else code)
    with forgotten():
        module = load_python_file(tmp_path / "own.py")
        part = module.Trunk() if "class" in plant else module.Wavy()
        with pytest.raises(InputError, match=says):
            export(stirred(GPT2.set("position", part)), tmp_path / "out")
    assert not (tmp_path / "out").exists()


# -- tokenizers --------------------------------------------------------------------------------------------------------

CORPUS = (
    "We don't know what the U.S. will do: 1,000.5 long-term plans -- it's said ...\n\nNaïve café owners.\tTabs, é日.\n"
    * 4
)
TRICKY = [
    "We don't know the U.S. plans",
    "  two  spaces, and\nlines\r\n\n",
    "<pad> is text and <unk> too",
    "日本 ☃ naïve 😀",
    "",
    " ",
    "x" * 300,
    "[CLS] of [SEP]",
]


@pytest.mark.parametrize(
    "spec",
    [
        Byte(),
        Character(),
        Word(),
        Word(lower=True, vocab=12),
        Bpe(vocab=300),
        Bpe(vocab=300, match="longest"),
        Bpe(vocab=60, alphabet="seen"),
        Bpe(vocab=300, newlines=False, special=("<|endoftext|>",)),
    ],
    ids=str,
)
def test_the_tokenizer_gives_the_same_ids(tmp_path, spec: Tokenizer):
    vocabulary = spec.learn(iter([CORPUS]))
    trained = as_if_trained(GPT2)
    other = type(trained.model)(GPT2, vocabulary.size).eval()
    trained = Trained(trained.record, trained.spec, other, vocabulary, (), 7)
    folder = export(trained, tmp_path / "out").folder
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for text in [*TRICKY, CORPUS, "a <|endoftext|> b"]:
        ids = vocabulary.encode([text])[0].tolist()
        assert tokenizer(text)["input_ids"] == ids, repr(text)
    batch = tokenizer(["the plans of", "the"], padding=True, return_tensors="pt")
    assert batch["input_ids"][1, -1] == 0
    assert batch.keys() == {"input_ids", "attention_mask"}
    assert len(tokenizer) == vocabulary.size
    assert tokenizer.model_max_length == 24
    if vocabulary.exact:
        assert tokenizer.decode(vocabulary.encode([TRICKY[3]])[0].tolist()) == TRICKY[3]


def test_an_unknown_vocabulary_is_exported_without_tokenizer(tmp_path):
    class Odd(type(as_if_trained(GPT2).vocabulary).__bases__[0]):  # a Vocabulary of somebody's own
        size, exact = 258, False
        encode = decode = names = state = lambda *_: []

    trained = as_if_trained(GPT2)
    trained = Trained(trained.record, trained.spec, trained.model, Odd(), (), 7)
    found = export(trained, tmp_path / "out")
    assert any(note.startswith("the folder has no tokenizer") for note in found.notes)
    assert not (found.folder / "tokenizer.json").exists()


# -- runs and checkpoints ----------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, home) -> Record:
    path = tmp_path / "mine.txt"
    path.write_text("we the people of the union will not tire\n" * 200)
    spec = run_on(path, "train.steps=4", "model.position=Rope")
    train(spec, home)
    return Record(home / "runs" / spec.id)


def test_export_writes_a_run(run, tmp_path):
    done = h2h("export", run.id[:6], "out")
    assert done.code == 0, done.err
    assert "wrote out: HeadToHeadForCausalLM" in done.out
    assert "note: no architecture of transformers equals it (the nearest, gpt2, differs in position)" in done.out
    assert "checked: transformers loads it; outputs differ by at most" in done.out
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", trust_remote_code=True).eval()
    trained = load_trained(run)
    ids = torch.tensor([trained.vocabulary.encode(["we the people"])[0].tolist()])
    with torch.no_grad():
        assert float((theirs(ids).logits - trained.model(ids)).abs().max()) <= SAME
    card = (tmp_path / "out" / "README.md").read_text()
    assert f"# run {run.id}" in card
    assert "AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)" in card
    assert "AutoTokenizer.from_pretrained(folder, trust_remote_code=True)" in card  # or transformers stops and asks
    assert "4 steps over" in card
    assert f"{run.require_result().values['test/loss']:.4g}" in card
    assert "--set 'model.position=Rope()'" in card
    assert "--data mine.txt" in card
    assert "--seed" not in card
    elsewhere = dataclasses.replace(trained, spec=dataclasses.replace(trained.spec, seed=7, threads=2))
    assert _training(elsewhere)[3].endswith("--seed 7 --threads 2")
    assert str(tmp_path) not in card
    assert run.require_result().warnings[0] in card
    again = h2h("export", run.id[:6], "out")
    assert again.code == 2
    assert again.err.strip() == "h2h: out exists and is not empty: give a new folder, or empty this one"
    said = h2h("score", "out", "we the people will not tire")
    assert said.code == 0, said.err
    assert said.out == h2h("score", run.id, "we the people will not tire").out


def test_the_command_in_the_card_makes_the_same_run(run):
    line = _training(load_trained(run))[3]
    words = shlex.split(line)[1:]
    done = h2h(*words, "--json")
    assert done.code == 0, done.err
    assert done.json[0]["run"] == run.id


@pytest.mark.parametrize("settings", [["model.pooling=First"], ["start.lora=2"]], ids=["whole", "LoRA"])
def test_a_fine_tuned_checkpoint_is_exported(checkpoint, tmp_path, home, settings):
    """Exported under the names of a plain model, LoRA's differences added up; step 0 is the checkpoint itself."""
    path = tmp_path / "mine.csv"
    rows = [f"{' '.join(WORDS[n % 9 : n % 9 + 5])} {WORDS[n % 7]},{'calm' if n % 2 else 'war'}" for n in range(80)]
    path.write_text("\n".join(["text,label", *rows]) + "\n")
    arm = arm_for(str(checkpoint("roberta")), Files(path=str(path)), longest=16)
    arm = arm.settings(["train.epochs=1", "train.batch=16", "train.optimizer.lr=0.01", *settings])
    spec = RunSpec(arm=arm).resolved()
    train(spec, home)
    record = Record(home / "runs" / spec.id)
    trained = load_trained(record)
    found = export(trained, tmp_path / "out")
    assert found.stock == (settings == ["model.pooling=First"])
    assert found.difference <= SAME
    tokenizer = transformers.AutoTokenizer.from_pretrained(found.folder)
    auto = transformers.AutoModelForSequenceClassification
    theirs = auto.from_pretrained(found.folder, trust_remote_code=True).eval()
    for said in classify(trained, [TEXT, "the good people " * 9]):
        with torch.no_grad():
            p = theirs(**tokenizer(said.text, truncation=True, return_tensors="pt")).logits.double().softmax(dim=1)[0]
        assert list(said.probabilities.values()) == pytest.approx(p.tolist(), abs=1e-5)
        assert theirs.config.id2label[int(p.argmax())] == said.label
    card = (found.folder / "README.md").read_text()
    assert str(tmp_path) not in card
    assert str(checkpoint("roberta").parent) not in card
    assert "tokenizer=Pieces(checkpoint='\"'\"'roberta'\"'\"', longest=16)" in card
    assert "content" not in card
    assert "Classes: calm, war." in card
    padded = torch.tensor([[0, 5, 9, 2, 1, 1]])
    if not found.stock:  # where no mask is given, the id of padding says what it is
        with torch.no_grad():
            assert float((theirs(padded).logits - trained.model(padded)).abs().max()) <= SAME
    moved, first = trained.model.state_dict(), load(str(checkpoint("roberta"))).model.state_dict()
    changed = {name for name in first if not torch.equal(moved[name], first[name])}
    assert changed
    begun = load_trained(record, 0).model.state_dict()
    assert all(torch.equal(begun[name], first[name]) for name in first)


@pytest.mark.parametrize(
    "kind",
    ["gpt2", "llama", "bert", "bert-classifier", "roberta-classifier", "distilbert-classifier", "electra-classifier"],
)
def test_a_stock_export_is_imported_again(checkpoint, tmp_path, kind):
    """Imported, exported and imported again: the same bits, the same tokens, the same labels."""
    first = load(str(checkpoint(kind)))
    found = export(first, tmp_path / "out")
    again = load(str(tmp_path / "out"))
    ours, theirs = first.model.state_dict(), again.model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert again.spec.arm.model == first.spec.arm.model
    assert (again.labels, again.task) == (first.labels, first.task)
    assert again.vocabulary.encode([TEXT])[0].tolist() == first.vocabulary.encode([TEXT])[0].tolist()
    assert (again.vocabulary.pad, again.vocabulary.unknown) == (first.vocabulary.pad, first.vocabulary.unknown)
    assert (
        transformers.AutoTokenizer.from_pretrained(found.folder)(TEXT)["input_ids"]
        == first.vocabulary.encode([TEXT])[0].tolist()
    )
    named = "the [SEP] people <s> of [PAD] </s>"
    ids = first.vocabulary.encode([named])[0].tolist()
    assert transformers.AutoTokenizer.from_pretrained(found.folder)(named)["input_ids"] == ids
    if kind in ("gpt2", "llama"):  # nothing was folded together, so the file holds the same weights too
        before, after = (load_file(f / "model.safetensors") for f in (checkpoint(kind), found.folder))
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)
    if kind == "gpt2":
        assert json.loads((found.folder / "config.json").read_text())["eos_token_id"] == 3


def test_an_export_with_our_code_is_imported_again(tmp_path):
    for n, (spec, classes) in enumerate([(ODD, 0), (ModelSpec(**SIZES, pattern=Full(), position=Rope()), 3)]):
        first = stirred(spec, classes)
        again = load(str(export(first, tmp_path / str(n)).folder))
        ours, theirs = first.model.state_dict(), again.model.state_dict()
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
        assert again.spec.arm.model == first.spec.arm.model
        assert again.labels == first.labels
        text = "<pad> é the"
        assert again.vocabulary.encode([text])[0].tolist() == first.vocabulary.encode([text])[0].tolist()


def test_a_file_named_in_a_configuration_is_never_run(tmp_path):
    folder = export(stirred(ODD), tmp_path / "out").folder
    (folder / "evil.py").write_text("raise SystemExit('it was run')")
    config = json.loads((folder / "config.json").read_text())
    config["model"]["position"] = {"kind": "Evil", "file": str(folder / "evil.py"), "source": "0" * 16}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="no part is called 'Evil'"):
        load(str(folder))


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_an_existing_folder_is_refused(tmp_path):
    trained = as_if_trained(GPT2)
    (tmp_path / "empty").mkdir()
    assert export(trained, tmp_path / "empty").stock
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="exists and is not empty"):
        export(trained, tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
    with pytest.raises(InputError, match="exists and is not empty"):
        export(trained, tmp_path / "empty")  # it was
    with pytest.raises(Unavailable, match="give a folder that you can write to"):
        export(trained, tmp_path / "file" / "below")


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    trained = as_if_trained(GPT2)
    monkeypatch.setattr(exported, "SAME", -1.0)
    with pytest.raises(InputError, match="computes other outputs than headtohead"):
        export(trained, tmp_path / "out")
    assert list(tmp_path.glob("*out*")) == []


def test_an_export_without_transformers_is_not_checked(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    found = export(as_if_trained(GPT2), tmp_path / "out")
    assert found.difference is None
    assert any("not checked" in line for line in found.lines())


def test_push_uploads_the_folder(tmp_path, monkeypatch):
    import huggingface_hub

    asked: list[tuple] = []

    class Hub:
        def create_repo(self, name, **options):
            asked.append(("create", name, options))

        def upload_folder(self, **options):
            asked.append(("upload", options))

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    said: list[str] = []
    push(tmp_path, "me/mine", said.append)
    assert said == [f"pushing {tmp_path} to the Hub as me/mine"]
    assert asked == [
        ("create", "me/mine", {"exist_ok": True}),
        ("upload", {"repo_id": "me/mine", "folder_path": tmp_path}),
    ]

    def offline(*_, **__):
        raise ConnectionError("no\nnetwork")

    monkeypatch.setattr(Hub, "create_repo", offline)
    with pytest.raises(Unavailable, match=r"cannot push to the Hub as me/mine \(no network\)"):
        push(Path(tmp_path), "me/mine", said.append)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("gate=OutputGate", "model.gate=OutputGate"),
        ("mixer=Latent", "model.mixer=Latent"),
        ("weighting=LearnedSinks", "model.weighting=LearnedSinks"),
        ("pattern=(Causal & Local(3)) + Causal", "model.pattern="),
        ("pattern=Causal & PerHead((Local(3), Causal))", "model.pattern="),
        ("norm=RMSNorm + LayerNorm", "model.norm="),
        ("feedforward=Gated + Mlp", "model.feedforward="),
        ("loops.times=2", "model.loops="),
    ],
)
def test_parts_that_the_file_cannot_express_are_refused_in_one_line(setting, named, tmp_path):
    name, _, value = setting.partition("=")
    with pytest.raises(InputError, match="cannot be exported") as error:
        export(as_if_trained(ModelSpec(**SIZES).set(name, value)), tmp_path / "folder")
    assert named in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "folder").exists()
