"""The process in which a submission runs: it does what it is asked, and sends numbers. The judging is done elsewhere.

The audit and the teacher's own tests run here, beside the submission's code, because they need its gradients and
objects. They are void if that code has replaced a function that they rely on.
"""

from __future__ import annotations

import copy
import importlib
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headtohead.auditor import CHECKS, Claims, examine
from headtohead.auditor.masks import mask_argument, mask_value, with_accepted_type
from headtohead.auditor.matching import heads_of, slots
from headtohead.auditor.module import CACHE_NAMES, from_module
from headtohead.auditor.subject import unwrap
from headtohead.errors import InputError
from headtohead.grading.finding import arguments_for, find_object
from headtohead.grading.integrity import changes, snapshot
from headtohead.sandbox.channel import Channel
from headtohead.spec.userfiles import load_source

Arrays = dict[str, np.ndarray]


def serve(channel: Channel) -> None:
    """Answer questions until the channel is closed."""
    student = Student()
    while True:
        question, arrays = channel.receive()
        value, sent = getattr(student, f"do_{question.pop('do')}")(arrays, **question)
        channel.send(value, sent)


class Student:
    """The submission, as far as a check has asked for it."""

    def __init__(self) -> None:
        self.before = snapshot()
        self.module: Any = None
        self.target: Any = None
        self.model: Any = None
        self.name = ""
        self.arguments: dict[str, Any] = {}
        self.mask_type: torch.dtype | None = None  # that the model accepts; None: not known yet

    # -- find and build ------------------------------------------------------------------------------------------------

    def do_open(self, _: Arrays, file: str, name: str, also: list[str]) -> tuple[Any, None]:
        """Import a file and find the class in it."""
        sys.path[:0] = list(dict.fromkeys([str(Path(file).resolve().parent), str(Path.cwd())]))
        try:
            self.module = importlib.import_module(Path(file).stem)
        except ImportError as error:
            raise InputError(f"{file} cannot be imported: {type(error).__name__}: {error}") from None
        note = ""
        if name:
            self.target, note = find_object(self.module, name, also)
            self.name = name
        return {"notes": [note] if note else []}, None

    def do_build(self, arrays: Arrays, arguments: dict[str, Any], seed: int) -> tuple[Any, None]:
        """Build the class and describe its parameters. It is in double precision if these texts work in it."""
        self.arguments, notes = arguments_for(self.target, arguments, self.name)
        self.model = self._made(seed)
        if arrays and self._works_in_double(arrays):
            self.model = self.model.double()
        found = slots(self.model)
        trained = sum(p.numel() for p in self.model.parameters() if p.requires_grad)
        described = [[s.name, list(s.shape), s.kind, s.biased] for s in found]
        mask = mask_argument(self.model)
        given = {"notes": notes, "slots": described, "trained": trained, "heads": heads_of(self.model), "mask": mask}
        return given, None

    def _works_in_double(self, arrays: Arrays) -> bool:
        single, double = self.model.eval(), copy.deepcopy(self.model).double()
        try:
            with torch.no_grad():
                self.model, out = double, self._called(arrays)
                self.model, wanted = single, self._called(arrays)
        except Exception:  # it fixes single precision somewhere
            return False
        finally:
            self.model = single
        return out.dtype == torch.float64 and torch.allclose(out, wanted.double(), rtol=1e-2, atol=1e-2)

    def _made(self, seed: int) -> nn.Module:
        _seed(seed)
        model = self.target(**self.arguments)
        if not isinstance(model, nn.Module):
            raise InputError(f"{self.name} builds a {type(model).__name__}, not a torch module")
        return model

    def do_signature(self, _: Arrays, forward: list[str]) -> tuple[Any, None]:
        """Which of these arguments `forward` lacks."""
        import inspect

        names = list(inspect.signature(self.model.forward).parameters)
        return {"lacks": [name for name in forward if name not in names], "has": names}, None

    # -- numbers -------------------------------------------------------------------------------------------------------

    def do_load(self, arrays: Arrays) -> tuple[Any, None]:
        """Set weights by name."""
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                if name in arrays:
                    p.copy_(torch.from_numpy(arrays[name]))
        self.model.eval()
        return {}, None

    def do_run(self, arrays: Arrays) -> tuple[Any, Arrays]:
        """Return the outputs of texts, in evaluation."""
        self.model.eval()
        with torch.no_grad():
            return {}, {"out": _array(self._called(arrays))}

    def _called(self, arrays: Arrays) -> Tensor:
        ids = torch.from_numpy(arrays["ids"])
        name = mask_argument(self.model)
        if "mask" not in arrays or name is None:
            return self._called_with(ids)
        keep = torch.from_numpy(arrays["mask"])

        def call(kind: torch.dtype) -> Tensor:
            return self._called_with(ids, **{name: mask_value(name, keep, kind)})

        if self.mask_type is None:
            self.mask_type, out = with_accepted_type(call)
            return out
        return call(self.mask_type)

    def _called_with(self, ids: Tensor, **mask: Tensor) -> Tensor:
        _seed(2)
        return unwrap(self.model(ids, **mask))

    def do_cached(self, arrays: Arrays, pieces: list[int]) -> tuple[Any, Arrays]:
        """Feed a text in pieces with the cache that the model fills."""
        self.model.eval()
        name = _argument(self.model, CACHE_NAMES)
        if name is None:
            raise InputError(f"forward has no argument named {' or '.join(CACHE_NAMES)}")
        cache: Any = {}
        outs, start = [], 0
        with torch.no_grad():
            for piece in pieces:
                ids = torch.from_numpy(arrays["ids"][:, start : start + piece])
                outs.append(unwrap(self.model(ids, **{name: cache})))
                start += piece
        return {"filled": len(cache) > 0}, {"out": _array(torch.cat(outs, dim=1))}

    def do_generate(self, arrays: Arrays, function: str, tokens: int) -> tuple[Any, Arrays]:
        """Call the function that continues texts."""
        self.model.eval()
        _seed(2)
        made = self._function(function)(self.model, torch.from_numpy(arrays["ids"]), tokens)
        if not isinstance(made, Tensor):
            raise InputError(f"{function} returned {type(made).__name__}, not a tensor of ids")
        return {}, {"out": made.detach().long().numpy()}

    def do_call(self, arrays: Arrays, function: str, values: dict[str, Any]) -> tuple[Any, Arrays]:
        """Call a function of the file with values and tensors."""
        given = values | {name: torch.from_numpy(array) for name, array in arrays.items()}
        target = self._function(function)
        arguments, notes = arguments_for(target, given, function)
        with torch.no_grad():
            out = target(**arguments)
        if not isinstance(out, Tensor):
            raise InputError(f"{function} returned {type(out).__name__}, not a tensor")
        return {"notes": notes}, {"out": _array(out)}

    def _function(self, name: str) -> Any:
        found, _ = find_object(self.module, name, ())
        return found

    def do_train(
        self, arrays: Arrays, arguments: dict[str, Any], seed: int, steps: int, batch: int, lr: float
    ) -> tuple[Any, None]:
        """Build the model afresh and train it: classes if there are labels, else the next token."""
        self.arguments, _ = arguments_for(self.target, arguments, self.name)
        self.model = self._made(seed).train()
        trained = [p for p in self.model.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=lr)
        draw = np.random.default_rng(seed)
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = lr * min(1.0, (step + 1) / 20) * (1 - 0.9 * step / steps)
            rows = draw.integers(0, len(arrays["ids"]), batch)
            part = {name: array[rows] for name, array in arrays.items()}
            ids = torch.from_numpy(part["ids"])
            if "labels" in part:
                logits, wanted = self._called(part), torch.from_numpy(part["labels"])
            else:
                logits, wanted = self._called({"ids": part["ids"]})[:, :-1].flatten(0, 1), ids[:, 1:].flatten()
            loss = nn.functional.cross_entropy(logits, wanted)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
        return {}, None

    # -- beside the submission's code ----------------------------------------------------------------------------------

    def do_audit(self, _: Arrays, arguments: dict[str, Any], claims: dict[str, Any]) -> tuple[Any, None]:
        """Audit the class."""
        self.arguments, _notes = arguments_for(self.target, arguments, self.name)
        given, target = self.arguments, self.target

        def build() -> nn.Module:
            return target(**given)

        claimed = Claims(**{**claims, "only": tuple(claims["only"])})
        names = tuple(check.name for check in CHECKS if not claimed.only or check.name in claimed.only)
        report = examine(from_module(build, self.name, claimed), names)
        self._unchanged()
        return report.to_json(), None

    def do_test(self, _: Arrays, source: str, file: str, function: str) -> tuple[Any, None]:
        """Run a test of the teacher: a function that is given the submission's module and raises AssertionError."""
        self._unchanged()
        tests = load_source(Path.cwd() / file, source.encode(), None, file)
        _seed(2)
        try:
            getattr(tests, function)(self.module)
        except AssertionError as error:
            said = str(error).splitlines()
            return {"passed": False, "says": said[0][:500] if said else f"{function} failed"}, None
        self._unchanged()
        return {"passed": True, "says": ""}, None

    def _unchanged(self) -> None:
        replaced = changes(self.before)
        if replaced:
            raise InputError(f"the submission replaced {replaced[0]}, which the check relies on: leave it as it is")


def _argument(model: nn.Module, names: tuple[str, ...]) -> str | None:
    import inspect

    known = inspect.signature(model.forward).parameters
    return next((name for name in names if name in known), None)


def _array(out: Tensor) -> np.ndarray:
    if not isinstance(out, Tensor):
        raise InputError(f"the module returned {type(out).__name__}, not a tensor")
    return np.asarray(out.detach().cpu().numpy())


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
