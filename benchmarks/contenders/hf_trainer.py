"""The models of hf_loop.py through transformers.Trainer: one long training, paused at the end of a step to wait.

A step is timed from the end of the one before to its own end, as a user of the Trainer lives it: fetching the batch,
forward, backward, optimizer and schedule. Logging, saving, evaluation and clipping are off, and batches arrive whole,
so no time goes into collating rows.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from typing import Any

from contender import Batch, Session, count
from hf_loop import bert, gpt2
from torch import Tensor
from torch.utils.data import IterableDataset
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class Stream(IterableDataset):
    """The session's batches, under the names the model wants."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        while True:
            ids, targets, keep = self.session.batch()
            if self.session.task.classes is None:  # the next tokens as they are: the model is not to shift them again
                yield {"input_ids": ids, "labels": targets, "shift_labels": targets}
            else:
                yield {"input_ids": ids, "labels": targets, "attention_mask": keep}


class Watched(Trainer):
    """Remembers what the model was given and the last loss, which callbacks are not told."""

    given: list[dict[str, Tensor]]
    loss: Tensor

    def compute_loss(self, model: Any, inputs: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        self.given.append(inputs)
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        self.loss = loss.detach()
        return loss


class Pause(TrainerCallback):
    """Trains as many steps as were asked for, answers, and waits inside the callback for the next request."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.trainer: Watched

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.session.ready(count(self.trainer.model), "transformers")
        self._wait(control)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self.last)
        self.last = now
        if len(self.seconds) == self.asked:
            self.session.answer(self.seconds, self.trainer.loss, [_batch(inputs) for inputs in self.trainer.given])
            self._wait(control)

    def _wait(self, control: TrainerControl) -> None:
        self.seconds: list[float] = []
        self.trainer.given = []
        self.asked = self.session.asked()
        control.should_training_stop = not self.asked
        self.last = time.perf_counter()


def _batch(inputs: dict[str, Tensor]) -> Batch:
    ids = inputs["input_ids"]
    return Batch(ids, inputs["labels"], inputs.get("attention_mask", ids != 0))


def main() -> None:
    session = Session()
    pause = Pause(session)
    with tempfile.TemporaryDirectory() as folder:
        pause.trainer = Watched(
            model=(gpt2 if session.task.classes is None else bert)(session.task),
            args=TrainingArguments(
                output_dir=folder,
                use_cpu=True,
                max_steps=10**9,
                per_device_train_batch_size=1,  # one item of the stream is one whole batch
                learning_rate=session.task.rate,
                lr_scheduler_type="constant",
                optim="adamw_torch_fused",
                max_grad_norm=0.0,
                logging_strategy="no",
                save_strategy="no",
                eval_strategy="no",
                report_to="none",
                logging_nan_inf_filter=False,
                disable_tqdm=True,
                remove_unused_columns=False,
                dataloader_pin_memory=False,
            ),
            train_dataset=Stream(session),
            data_collator=lambda items: items[0],
            callbacks=[pause],
        )
        pause.trainer.train()
    session.end()


if __name__ == "__main__":
    main()
