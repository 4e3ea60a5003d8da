"""What a script or a notebook calls first.

    import headtohead as h2h

    run = h2h.train("lm", data="shakespeare", set={"model.position": "Rope"})
    run.metrics                      # a DataFrame
    run.plot()
    h2h.generate(run, "The people")
    h2h.attention(run, "We will not tire, we will not falter.")

Every function does what the command of the same name does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headtohead.errors import InputError
from headtohead.run import store
from headtohead.run.store import Record
from headtohead.training.arm import Arm

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from torch import nn

    from headtohead.auditor import Report
    from headtohead.data.corpora import Corpus
    from headtohead.data.tokenizers import Vocabulary
    from headtohead.external.comparison import Comparison
    from headtohead.interpret.generate import Generated
    from headtohead.interpret.maps import Maps
    from headtohead.interpret.score import Classified, Score
    from headtohead.run.load import Trained
    from headtohead.spec import Part


@dataclass(frozen=True)
class Run:
    """A trained model and everything that is known of it: a run in the store, or a checkpoint.

    Examples:
        >>> sorted(run.result["values"])[0]
        'test/bits_per_byte'
        >>> int(run.metrics["step"].iloc[-1])
        40
    """

    record: Record  # its folder in the store
    checkpoint: str = ""  # its name, where this is no run

    @property
    def id(self) -> str:
        """The name of its folder in the store, or the name of the checkpoint."""
        return self.checkpoint or self.record.id

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self.record.folder

    @property
    def result(self) -> dict[str, Any]:
        """What the run ended with: status, steps, parameters, and "values" such as "test/loss"."""
        if self.checkpoint or self.record.result is None:
            raise InputError(f"{self.id} has no result: {'it is a checkpoint' if self.checkpoint else 'go on with it'}")
        return self.record.result.to_json()

    @property
    def metrics(self) -> pd.DataFrame:
        """One row per line of metrics.jsonl: the step, the training loss, and every evaluation during training."""
        import pandas as pd

        return pd.DataFrame([] if self.checkpoint else self.record.metrics)

    @cached_property
    def trained(self) -> Trained:
        """Model, vocabulary and spec, loaded once."""
        from headtohead.run import named as imported
        from headtohead.run.load import load_trained

        return imported.load(self.checkpoint) if self.checkpoint else load_trained(self.record)

    @property
    def model(self) -> nn.Module:
        """The torch module with its trained weights, in evaluation mode."""
        return self.trained.model

    @property
    def tokenizer(self) -> Vocabulary:
        """Turns text into ids and back: `encode(["a text"])`, `decode(ids)`."""
        return self.trained.vocabulary

    @property
    def arm(self) -> Arm:
        """Everything that decided the result, except the seed."""
        return self.trained.spec.arm

    def plot(self) -> Figure:
        """Training, validation and test curves."""
        from headtohead.report.curves import plot

        return plot([self.record])

    def _repr_html_(self) -> str:
        from html import escape

        if self.checkpoint:
            return f"<p>checkpoint {escape(self.checkpoint)}</p>"
        values = {k: v for k, v in self.result["values"].items() if isinstance(v, int | float)}
        rows = "".join(f"<tr><td>{escape(k)}</td><td>{v:.4g}</td></tr>" for k, v in values.items())
        return f"<p>run {self.id}: {escape(str(self.result['ended']))}</p><table>{rows}</table>"


def train(
    what: str | Arm = "lm",
    *,
    data: str | Path | Corpus | None = None,
    seed: int = 0,
    set: Mapping[str, Any] | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    device: str = "auto",
    threads: int = 1,
    home: str | Path | None = None,
    progress: bool = True,
) -> Run:
    """Train one model, or return it where the store has it: what `h2h train` does.

    Args:
        what: "lm", "classifier", an Arm, or FILE.py:NAME of an arm
        data: The name of a corpus, such as "shakespeare", or the path of a file
        seed: It decides initial weights, batch order and dropout
        set: Settings by path: `{"model.position": "Rope", "train.batch": 8}`
        steps: The number of updates
        epochs: How often the texts are read, in place of `steps`
        device: "auto", "cpu", "cuda" or "mps"
        threads: Threads of torch
        home: The folder of the store; by default HEADTOHEAD_HOME, or h2h-results
        progress: Show progress on the terminal or in the notebook
    """
    from headtohead.display.training_screen import run_screen
    from headtohead.run.events import Finished
    from headtohead.run.executors.execution import Execution
    from headtohead.run.train import specs_of, train_runs

    arm = _arm(what, data)
    for path, value in {**(set or {}), **_given(train_steps=steps, train_epochs=epochs)}.items():
        arm = arm.set(path, value)
    execution = Execution(jobs=1, device=device, threads=threads)
    specs = specs_of(arm, [seed], execution)
    with run_screen(quiet=not progress) as screen:
        ends = train_runs(specs, execution, home=_home(home), listen=screen.hear)
    if not ends or not isinstance(ends[0], Finished):
        raise KeyboardInterrupt  # everything is saved, and the same call goes on
    return Run(ends[0].record)


def _arm(what: str | Arm, data: str | Path | Corpus | None) -> Arm:
    from headtohead.data.corpora import Corpus
    from headtohead.training.arms import arm_for, arm_in

    if isinstance(what, Arm) or (isinstance(what, str) and ".py:" in what):
        if data is not None:
            raise InputError('an arm has its own data: change it with set={"data.corpus": …}')
        return what if isinstance(what, Arm) else arm_in(what, [])
    if what not in ("lm", "classifier"):
        raise InputError(f'train("lm"), train("classifier"), an Arm, or FILE.py:NAME; not {what!r}')
    task: Literal["lm", "classifier"] = "lm" if what == "lm" else "classifier"
    if isinstance(data, Corpus):
        return Arm.of(task, data)
    return arm_for(task, None if data is None else str(data))


def _given(**settings: Any) -> dict[str, Any]:
    return {name.replace("_", ".", 1): value for name, value in settings.items() if value is not None}


def _home(home: str | Path | None) -> Path:
    return Path(home) if home is not None else store.home()


# -- what the store has ------------------------------------------------------------------------------------------------


def load(name: str = "latest", *, home: str | Path | None = None, trust: bool = False) -> Run:
    """A run by its id, a unique prefix, "latest" or "study/arm@seed"; or a checkpoint: a folder, minilm, hub:NAME.

    With `trust`, the code that came with the run is approved, as by `h2h.trust(name)`. Its model is not loaded before.
    """
    from headtohead.run.approval import approve, needed_by
    from headtohead.run.named import run_or_checkpoint

    record = run_or_checkpoint(str(name), _home(home))
    if trust and record is not None:
        approve(needed_by([record]))
    return Run(record) if record is not None else Run(Record(Path(name)), checkpoint=str(name))


def runs(home: str | Path | None = None) -> pd.DataFrame:
    """Every run in the store, the latest last: state, task, corpus, seed, differences from the default, figures.

    Examples:
        >>> frame = h2h.runs()
        >>> classifiers = frame[frame["task"] == "classifier"]
        >>> len(classifiers)
        1
    """
    import pandas as pd

    from headtohead.display.run_list import run_rows

    rows = run_rows(_home(home))
    return pd.DataFrame([{k: v for k, v in row.items() if k != "values"} | row.get("values", {}) for row in rows])


def studies(home: str | Path | None = None) -> pd.DataFrame:
    """Every study in the store: its question, arms, seeds and metric."""
    import pandas as pd

    from headtohead.display.run_list import study_rows

    return pd.DataFrame(study_rows(_home(home)))


def trust(name: str | Path, *, home: str | Path | None = None) -> pd.DataFrame:
    """Approve code: a Python file, or what a run, an arm or a study needs. What `h2h trust --yes` does.

    Read the code first: it can do everything that you can. The table has the name, sha256, size and place of each file.
    """
    import pandas as pd

    from headtohead.run.approval import approve, code_named

    found = code_named(str(name), _home(home))
    approve(found)
    return pd.DataFrame([one.to_json() for one in found])


# -- what a model does -------------------------------------------------------------------------------------------------


def generate(
    run: Run | Trained | str,
    prompt: str = "",
    *,
    tokens: int = 50,
    samples: int = 1,
    greedy: bool = False,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    seed: int = 0,
) -> list[Generated]:
    """Continue a prompt, and return one sample or several.

    Args:
        run: A run, or the name of one, such as "latest"
        prompt: How the text begins; an empty prompt gives any text
        tokens: The number of new tokens in each sample
        samples: The number of samples
        greedy: Take the most likely token each time
        temperature: Below 1 the likely tokens become likelier; above 1 the others do
        top_k: Draw only from the k most likely tokens
        top_p: Draw only from the most likely tokens that have this probability together
        repetition_penalty: Above 1, tokens that were used become less likely
        seed: The same seed gives the same samples

    Examples:
        >>> sample = h2h.generate(run, "we will", tokens=5, seed=1)[0]
        >>> len(sample.tokens)
        5
    """
    from headtohead.interpret.generate import Decoding
    from headtohead.interpret.generate import generate as generated

    decoding = Decoding(greedy, temperature, top_k, top_p, repetition_penalty, seed)
    return generated(_trained(run), prompt, tokens=tokens, samples=samples, decoding=decoding)


def score(run: Run | Trained | str, text: str) -> Score:
    """Loss and perplexity of a text under a language model, token by token.

    Examples:
        >>> scored = h2h.score(run, "we will")
        >>> scored.loss > 0
        True
    """
    from headtohead.interpret import score as predict

    return predict.score(_trained(run), text)


def classify(run: Run | Trained | str, texts: str | Sequence[str]) -> list[Classified]:
    """The label of each text, with the probability of every class.

    Examples:
        >>> good, bad = h2h.classify(reviews, ["good", "bad"])
        >>> good.label in ("up", "down")
        True
    """
    from headtohead.interpret import score as predict

    return predict.classify(_trained(run), [texts] if isinstance(texts, str) else list(texts))


def attention(
    model: Run | Trained | nn.Module | str, text: str, *, tokenizer: Any = None, step: int | None = None
) -> Maps:
    """The attention maps of a model on a text, with what must hold of them.

    `model` is a run, a checkpoint, the name of either, or a module with its `tokenizer`: one of ours, or one of
    Hugging Face's. `step` takes the weights of a snapshot; step 0 is before training.

    Examples:
        >>> maps = h2h.attention(run, "we will")
        >>> maps.ok  # each row sums to one, no token sees a later one, …
        True
        >>> maps.head(layer=0, head=0).shape == (len(maps.tokens), len(maps.tokens))
        True
    """
    from torch import nn

    from headtohead.interpret import maps
    from headtohead.interpret.modules import module_attention

    if isinstance(model, nn.Module):
        return module_attention(model, text, tokenizer)
    if isinstance(model, Run):
        return maps.attention(model.trained if step is None else model.record, text, step=step)
    return maps.attention(model, text, step=step)


def audit(
    what: nn.Module | type[nn.Module] | Part | str | Any,
    *,
    causal: bool = False,
    relative: bool = False,
    window: int | None = None,
    vocab: int | None = None,
    block: int | None = None,
    pad: int = 0,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    reference: type[nn.Module] | Callable[..., nn.Module] | str | None = None,
) -> Report:
    """Prove that a module, a class of modules, a part or a model's spec is what it says.

    A module maps token ids (B, T) to logits (B, T, V) or (B, classes). A class is better than a module: it can be built
    afresh, so that its start is audited too. `print(report)` shows what was proved and what is broken; `report.ok`.

    Args:
        what: A module, a class of modules, a part such as `h2h.Rope()`, or a `ModelSpec`
        causal: You claim that no output depends on a later token
        relative: You claim that attention depends only on the distance of two tokens
        window: You claim that a token sees this many tokens, including itself
        vocab: The number of token ids, if the module does not say it
        block: The longest text, if the module does not say it
        pad: The id of padding
        only: The names of the checks to run; by default all
        skip: The names of checks to leave out
        reference: A class, or "file.py:Class": with the same weights, the module must give its outputs

    Examples:
        >>> h2h.audit(h2h.Rope()).ok
        True
        >>> [finding.check for finding in h2h.audit(h2h.Reweight(over="sequence")).broken][0]
        'future-gradient'
    """
    from headtohead.auditor import Claims, audit_any

    return audit_any(what, Claims(causal, relative, window, vocab, block, pad, tuple(only), tuple(skip), reference))


# -- figures that were made elsewhere ----------------------------------------------------------------------------------


def compare(
    *sources: str | Path | pd.DataFrame,
    against: str | Path | Sequence[str | Path] = (),
    metric: str | None = None,
    arm: str | None = None,
    seed: str | None = None,
    control: str | None = None,
    better: Literal["lower", "higher"] | None = None,
    margin: float | str | None = None,
    take: Literal["last", "first", "best"] = "last",
    step: int | None = None,
    pattern: str | None = None,
    seed_pattern: str | None = None,
    average_repeats: bool = False,
) -> Comparison:
    """Judge figures that were made elsewhere: tables, a data frame, TensorBoard and W&B runs, Trainer states, logs.

    `against` names the runs of one variant; the runs of the control are `sources` then. Patterns with * are expanded.
    `print(comparison)` shows what was read and the verdicts; `comparison.verdicts["arm"]` is one of them.
    """
    from headtohead.external.comparison import compare_sources

    side = [against] if isinstance(against, str | Path) else list(against)
    return compare_sources(
        sources,
        [side] if side else [],
        metric=metric,
        arm=arm,
        seed=seed,
        control=control,
        better=better,
        margin=margin,
        take=take,
        step=step,
        pattern=pattern,
        seed_pattern=seed_pattern,
        average_repeats=average_repeats,
    )


def _trained(run: Run | Trained | str) -> Trained:
    from headtohead.run.named import opened

    return run.trained if isinstance(run, Run) else opened(run)
