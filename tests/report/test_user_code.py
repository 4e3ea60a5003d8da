"""The report shows the source of the user's own parts, from the copies stored with the runs, and never executes it."""

from __future__ import annotations

import hashlib
import re
from html import unescape
from pathlib import Path

import pytest

from headtohead.outcome.outcome import Outcome, load_outcome
from headtohead.report.page import page
from headtohead.report.paste import methods
from headtohead.report.printed import write_pdf
from headtohead.report.user_code import highlighted, user_classes
from headtohead.spec.userfiles import load_file
from helpers.browser import Open
from helpers.stores import stored
from helpers.studies import carried, study

SOURCE = '''from pathlib import Path

from headtohead import Rope

Path("executed").touch()
UNUSED = "not part of the class"
SCALE = 2.0  # of theta, <b>not</b> of the angles


class Slow(Rope):
    """Rotary positions that turn more slowly: </pre><script>alert(1)</script>"""

    equation = f"theta_i = {SCALE} · base"

    def build(self, dims):  # 中文 & more
        return super().build(dims)
'''


@pytest.fixture
def outcome(home: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """A study that is really trained, with a part from the user's file; the file is gone afterwards."""
    monkeypatch.chdir(tmp_path)
    file = Path("slow.py")
    file.write_text(SOURCE, encoding="utf-8")
    own = load_file(file).Slow()
    carried(study(text, vary={"model.position": ["Learned", own]}, seeds=2), home)
    file.unlink()
    Path("executed").unlink()
    return load_outcome(home / "studies" / "tiny")


def test_class_is_shown_with_what_it_uses(outcome: Outcome):
    (found,) = user_classes(outcome)
    assert (found.name, found.uses, found.file) == ("Slow", "model.position of Slow", "slow.py")
    assert found.sha256 == hashlib.sha256(SOURCE.encode()).hexdigest()
    assert SOURCE[SOURCE.index("class Slow") :].strip() in found.source
    assert "SCALE = 2.0" in found.source
    assert "from headtohead import Rope" in found.source
    assert "UNUSED" not in found.source
    assert not Path("executed").exists()


def test_copies_that_are_damaged_or_missing_are_not_shown(outcome: Outcome):
    copies = list(outcome.home.glob("runs/*/code/*.py"))
    assert len(copies) == 2
    copies[0].write_text(SOURCE.replace("2.0", "3.0"), encoding="utf-8")
    assert "SCALE = 2.0" in user_classes(outcome)[0].source  # from the other run
    copies[1].unlink()
    (found,) = user_classes(outcome)
    assert (found.sha256, found.source, found.file) == ("", "", "slow.py")
    html = page(outcome)
    assert "No intact copy of its source is stored" in html
    assert "our own code" not in html


def test_class_of_another_digest_is_not_shown(outcome: Outcome):
    for copy in outcome.home.glob("runs/*/code/*.py"):
        other = SOURCE.replace("SCALE = 2.0", "SCALE = 4.0").encode()
        copy.unlink()
        (copy.parent / f"{hashlib.sha256(other).hexdigest()}.py").write_bytes(other)
    assert user_classes(outcome)[0].source == ""


def test_methods_name_the_users_code(outcome: Outcome):
    sha256 = hashlib.sha256(SOURCE.encode()).hexdigest()
    assert f"Slow is our own code, defined in slow.py (sha256 {sha256[:16]})." in methods(outcome, outcome.verdicts)


def test_study_of_built_in_parts_has_no_code_section(home: Path):
    html = page(stored(home))
    assert 'id="code"' not in html
    assert "#code" not in html


def test_class_of_a_notebook_has_no_file(outcome: Outcome):
    record = outcome.record
    for table in record.tables:
        for arm in table.arms:
            arm.spec["model"]["position"].pop("file", None)
    assert "defined in a notebook or an interactive session" in page(outcome)


@pytest.mark.parametrize(
    "source",
    [
        SOURCE,
        "x = '''\n<i>'''\n\n\nif x:\n    y = f'{x!r:>{10}}'  # a & b",
        "def broken(:\n  '",
        "s = '\x0c'\n# form feed \x0c & \u2028 line separators <\nz = 1",
    ],
)
def test_highlighting_keeps_and_escapes_every_letter(source: str):
    html = highlighted(source)
    bare = re.sub(r'</?span(?: class="(?:comment|string|keyword)")?>', "", html)
    assert "<" not in bare
    assert unescape(bare) == source


def test_highlighting_marks_comments_strings_and_keywords():
    html = highlighted('def f():\n    return "a"  # why')
    assert '<span class="keyword">def</span> f' in html
    assert '<span class="string">&quot;a&quot;</span>' in html
    assert '<span class="comment"># why</span>' in html


@pytest.mark.parametrize("width", [1280, 390])
def test_source_can_be_read_folded_and_copied(outcome: Outcome, opened: Open, width: int):
    tab = opened(page(outcome), width=width, height=900)
    assert tab.locator("nav a[href='#code']").count() == 1
    block = tab.locator("#code-1")
    assert block.is_visible()
    assert block.inner_text().strip() == user_classes(outcome)[0].source
    assert tab.locator("#code-1 script").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    tab.locator("details.code summary").click()
    assert not block.is_visible()
    tab.locator("details.code summary").click()
    tab.locator("button[data-of='code-1']").click()
    tab.get_by_text("Source of Slow copied").wait_for()  # the browser's clipboard answers later


def test_printed_page_has_the_source(outcome: Outcome, chromium: str, tmp_path: Path):
    file = tmp_path / "report.html"
    file.write_text(page(outcome), encoding="utf-8")
    assert write_pdf(file, chromium).read_bytes().startswith(b"%PDF")
