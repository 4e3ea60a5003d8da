"""The parts of a page that is saved as one file."""

from __future__ import annotations

import re

from headtohead.web import sharing


def test_every_module_is_in_the_script_and_none_is_imported():
    script = sharing.bundle()
    for file in sharing.STATIC.glob("*.js"):
        assert f'modules["{file.name}"]' in script
    assert not re.search(r"^\s*(import|export)\b|\bimport\(", script, re.MULTILINE)
    assert "</script" not in script


def test_the_policy_allows_this_script_and_these_styles_only():
    for name, (before, after) in sharing.templates().items():
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', before)
        assert policy is not None
        assert policy[1].startswith("default-src 'none'")
        style = re.search(r"<style>(.*?)</style>", before, re.DOTALL)
        assert style is not None
        assert sharing.digest(style[1]) in policy[1]
        script = re.search(r"<script>(.*?)</script>", after, re.DOTALL)
        assert (script is not None) == (name == "live")
        if script is not None:
            assert sharing.digest(script[1]) in policy[1]
        assert "connect-src" not in policy[1]  # no address at all
        assert not re.search(r'(?:src|href)="(?!data:|#)', before + after)
