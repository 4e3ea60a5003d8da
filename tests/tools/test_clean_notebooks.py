"""The tool that removes outputs from notebooks."""

from __future__ import annotations

import json

import pytest

from clean_notebooks import cleaned

pytest.importorskip("nbformat", reason="nbformat is not installed: pip install nbclient")

RUN = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {"widgets": {"state": 1}, "kernelspec": {"name": "of-mine", "display_name": "mine"}},
    "cells": [
        {"cell_type": "markdown", "id": "aaaa", "metadata": {"editable": True}, "source": "# Title"},
        {
            "cell_type": "code",
            "id": "bbbb",
            "metadata": {"tags": ["exercise", "mine"], "collapsed": True},
            "source": "1 + 1",
            "execution_count": 7,
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "2"}],
        },
    ],
}


def test_outputs_and_metadata_are_removed():
    book = json.loads(cleaned(json.dumps(RUN)))
    assert set(book["metadata"]) == {"kernelspec", "language_info"}
    title, code = book["cells"]
    assert (title["metadata"], title["id"]) == ({}, "cell-00")
    assert code["metadata"] == {"tags": ["exercise"]}
    assert (code["outputs"], code["execution_count"], "".join(code["source"])) == ([], None, "1 + 1")


def test_a_clean_notebook_stays_the_same():
    once = cleaned(json.dumps(RUN))
    assert cleaned(once) == once
