"""Audits in your own tests: assertions about any torch module that maps ids (B, T) to logits.

    from headtohead.testing import assert_causal

    def test_my_model_is_causal():
        assert_causal(MyModel)

Each assertion calls the audit and fails with one line, the counterexample. With headtohead installed, pytest has the
fixture `audit` as well. Importing this package does not import torch.
"""

from headtohead.testing.assertions import (
    assert_audit,
    assert_batch_independent,
    assert_cache_equal,
    assert_causal,
    assert_padding_ignored,
    assert_trainable,
    assert_window,
)

__all__ = [
    "assert_audit",
    "assert_batch_independent",
    "assert_cache_equal",
    "assert_causal",
    "assert_padding_ignored",
    "assert_trainable",
    "assert_window",
]
