"""The padding mask of a module: its name, its sense and the type that the module accepts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from headtohead.auditor.masks import lengths_mask, mask_argument, mask_value, with_accepted_type


class Padded(nn.Module):
    def forward(self, ids: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        return ids


class Unpadded(nn.Module):
    def forward(self, ids: Tensor) -> Tensor:
        return ids


def test_the_mask_is_found_by_name() -> None:
    assert mask_argument(Padded()) == "key_padding_mask"
    assert mask_argument(Unpadded()) is None


def test_a_padding_mask_is_true_at_padding() -> None:
    keep = torch.tensor([[True, False]])
    assert mask_value("attention_mask", keep, torch.long).tolist() == [[1, 0]]
    assert mask_value("key_padding_mask", keep, torch.float32).tolist() == [[0.0, 1.0]]


def test_the_first_type_that_works_is_taken() -> None:
    keep = torch.tensor([[True, False]])
    kind, out = with_accepted_type(lambda kind: 1 - keep.to(kind))  # torch refuses 1 - bool
    assert kind == torch.long
    assert out.tolist() == [[0, 1]]


def test_the_first_error_is_told_if_no_type_works() -> None:
    def call(kind: torch.dtype) -> None:
        raise ValueError(str(kind))

    with pytest.raises(ValueError, match=r"torch\.bool"):
        with_accepted_type(call)


@pytest.mark.parametrize(("rows", "length"), [(4, 17), (2, 2), (6, 5), (4, 1)])
def test_the_first_text_is_whole_and_none_is_empty(rows: int, length: int) -> None:
    keep = lengths_mask(rows, length)
    assert keep.shape == (rows, length)
    assert keep[0].all()
    assert keep[:, 0].all()
