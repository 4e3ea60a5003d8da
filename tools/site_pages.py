"""The pages of the documentation site: which files become pages, in which order, and where a link leads.

Links in Markdown are written for a Git host: relative to the file, to any file of the repository. A link that leaves
docs/ leads to a page of the site that shows that file or folder.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CHANGELOG = "CHANGELOG.md"
LANGUAGES = {".py": "python", ".pyi": "python", ".json": "json", ".toml": "toml", ".sh": "sh", ".js": "js", ".md": ""}

# Tabs, from left to right. A folder of docs/ that is not named here comes after those that are.
TABS = {
    "tutorial": "Tutorial",
    "how-to": "How-to",
    "explanation": "Explanation",
    "reference": "Reference",
    "notebooks": "Notebooks",
    "course": "Course",
}
LAST = {"claims.md": "Claims", "log.md": "Log", "changelog.md": "Changelog"}

# Groups of how-to pages. A page that is not named here is in a last group.
HOW_TO = {
    "Studies": ["study", "tasks", "compare", "report", "export-results", "persist", "search", "serve"],
    "Models": ["train", "look-inside", "add-a-part", "audit-a-module", "pretrained"],
    "Courses": ["teach", "grade", "course-report", "puzzles"],
    "Published results": ["reproduce", "check-a-claim"],
    "This project": ["testing", "release"],
}
# Pages of other folders that come first there.
FIRST = {
    "explanation": [
        "studies",
        "equivalents",
        "audit",
        "model",
        "looking",
        "pretrained",
        "runs",
        "security",
        "integrity",
    ],
    "reference": ["install", "commands", "settings", "parts", "tasks", "metrics"],
    "reference/api": [
        *("runs", "studies", "compare", "arms", "data", "models", "model-parts", "training-parts", "own-parts", "audit")
    ],
}

_CODE = re.compile(r"(^```.*?^```$|^~~~.*?^~~~$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()(?P<to>[^)\s#]+)(?P<rest>#[^)\s]*)?(?=\))")
_INDEX = re.compile(r"(?<=\d)\]\[(?=\d)")  # heads[0][0] in prose is no link


# -- links ------------------------------------------------------------------------------------------------------------


def place_on_site(file: str) -> str:
    """Where the site has a file of the repository, as a path below its docs folder."""
    if file.endswith(".ipynb"):
        return place_on_site(f"{file.removesuffix('.ipynb')}.md")
    if (ROOT / file).is_dir():
        return f"repository/{file}/README.md"
    if file.startswith("docs/"):
        return file.removeprefix("docs/")
    if file == CHANGELOG:
        return "changelog.md"
    return f"repository/{file}" if file.endswith(".md") else f"repository/{file}.md"


def linked(text: str, page: str) -> Iterator[str]:
    """Files and folders of the repository that the page at `page` links to."""
    for part in _CODE.split(text)[::2]:
        for found in _LINK.finditer(part):
            file = _file(page, found["to"])
            if file is not None:
                yield file


def with_site_links(text: str, page: str) -> str:
    """The text of a page with its links as the site needs them."""

    def change(found: re.Match[str]) -> str:
        file = _file(page, found["to"])
        if file is None:
            return found[0]
        at = posixpath.relpath(place_on_site(file), posixpath.dirname(place_on_site(page)))
        return f"{found[1]}{at}{found['rest'] or ''}"

    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(change, _INDEX.sub(r"]\\[", part)) for part in parts[::2]]
    return "".join(parts)


def _file(page: str, link: str) -> str | None:
    if re.match(r"[a-z]+:|/", link):
        return None
    file = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    return file if not file.startswith("..") and (ROOT / file).exists() else None


# -- pages that are not in docs/ ---------------------------------------------------------------------------------------


def added_pages(root: Path = ROOT) -> dict[str, Callable[[], str]]:
    """Pages beside docs/**/*.md: the changelog, notebooks, and what pages link to outside docs/. Place and content."""
    written = {f.relative_to(root).as_posix(): f.read_text(encoding="utf-8") for f in (root / "docs").rglob("*.md")}
    notebooks = [f.relative_to(root).as_posix() for f in sorted((root / "docs").rglob("*.ipynb"))]
    waiting = {CHANGELOG: root / CHANGELOG} | {name: root / name for name in notebooks}
    for page, text in written.items():
        waiting |= {file: root / file for file in linked(text, page) if _is_added(file)}
    known: dict[str, Path] = {}
    while waiting:
        file, path = waiting.popitem()
        known[file] = path
        if path.suffix == ".md":
            more = linked(path.read_text(encoding="utf-8"), file)
            waiting |= {f: root / f for f in more if f not in known and _is_added(f)}
    return {place_on_site(file): lambda file=file, path=path: _shown(file, path) for file, path in known.items()}  # type: ignore[misc]


def _is_added(file: str) -> bool:
    return not file.startswith("docs/") or (ROOT / file).is_dir()


def _shown(file: str, path: Path) -> str:
    """A file or folder as Markdown, its links mapped."""
    if path.is_dir():
        names = sorted(f"{f.name}/" if f.is_dir() else f.name for f in path.iterdir() if f.name[0] not in "._")
        return f"# {file}\n\nA folder of the repository:\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return with_site_links(from_notebook(json.loads(text), path.name), file)
    if path.suffix == ".md":
        return with_site_links(text, file)
    language = LANGUAGES.get(path.suffix, "text")
    return f"# {file}\n\nA file of the repository.\n\n````{language}\n{text.rstrip()}\n````\n"


def from_notebook(notebook: dict[str, Any], name: str) -> str:
    """A notebook as Markdown: text, programs, and what they printed."""
    parts = [f"[Download this notebook]({name}){{ download }}"]
    for cell in notebook["cells"]:
        source = "".join(cell["source"]).strip()
        if cell["cell_type"] == "code":
            parts += [f"````python\n{source}\n````"] if source else []
            parts += [shown for output in cell.get("outputs", []) if (shown := _output(output))]
        else:
            parts.append(source)
    title = next((n for n, part in enumerate(parts) if part.startswith("# ")), 0)
    return "\n\n".join([parts.pop(title), *parts]) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    for kind in ("image/svg+xml", "image/png"):
        if kind in data:
            content = "".join(data[kind]).strip()
            if kind == "image/png":
                return f'<img alt="Output of the program above" src="data:image/png;base64,{content}">'
            return f"<div>{content}</div>"
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    return f"````text\n{text}\n````" if text else ""


# -- navigation -------------------------------------------------------------------------------------------------------


def navigation(pages: Iterable[str]) -> list[Any]:
    """The navigation of all pages of the site, as mkdocs wants it. A new page needs no entry anywhere."""
    ours = sorted(page for page in pages if not page.startswith("repository/"))
    folders: dict[str, list[str]] = {}
    for page in ours:
        if "/" in page:
            folders.setdefault(page.split("/")[0], []).append(page)
    tabs = [*(f for f in TABS if f in folders), *sorted(set(folders) - set(TABS))]
    top = [page for page in ours if "/" not in page and page != "README.md"]
    ends = [*sorted(set(top) - set(LAST)), *(page for page in LAST if page in top)]
    return [
        {"Start": "README.md"},
        *({TABS.get(f, f.capitalize()): _section(f, folders[f])} for f in tabs),
        *({LAST[page]: page} if page in LAST else page for page in ends),
    ]


def _section(folder: str, pages: list[str]) -> list[Any]:
    if folder == "how-to":
        groups: dict[str, list[str]] = {name: [] for name in HOW_TO}
        for page in pages:
            stem = Path(page).stem
            group = next((name for name, stems in HOW_TO.items() if stem in stems), "More")
            groups.setdefault(group, []).append(page)
        return [{name: sorted(found, key=_order)} for name, found in groups.items() if found]
    here = sorted((page for page in pages if page.count("/") == folder.count("/") + 1), key=_order)
    below = sorted({"/".join(page.split("/")[: folder.count("/") + 2]) for page in pages if page not in here})
    return [*here, *({_named(f): _section(f, [p for p in pages if p.startswith(f"{f}/")])} for f in below)]


def _order(page: str) -> tuple[Any, ...]:
    folder, stem = posixpath.dirname(page), Path(page).stem
    known = [s for stems in HOW_TO.values() for s in stems] if folder == "how-to" else FIRST.get(folder, [])
    return (stem != "README", known.index(stem) if stem in known else len(known), page)


def _named(folder: str) -> str:
    name = folder.rpartition("/")[2]
    return {"api": "Python"}.get(name, name.replace("-", " ").capitalize())
