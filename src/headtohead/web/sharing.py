"""A page as one HTML file that opens anywhere: the page's own scripts and styles inside one document.

Browsers load no modules from a file next to the page, so the modules become functions of one script. The file has its
own Content-Security-Policy: only this script and these styles, by their hashes, and no address at all.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from starlette.routing import Route

from headtohead.web.answers import answered
from headtohead.web.bench import Bench

STATIC = Path(__file__).parent / "static"
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+\.js)";$', re.MULTILINE)
LATER = re.compile(r'\bimport\("\./(\w+\.js)"\)')
EXPORT = re.compile(r"^export ((?:async )?function|const|class) (\w+)", re.MULTILINE)
STYLES = '<link rel="stylesheet" href="static/style.css">'
SCRIPT = '<script type="module" src="static/app.js"></script>'
ICON = 'href="static/icon.svg"'


def routes(_: Bench) -> list[Route]:
    return [Route("/api/share", answered(templates))]


def templates() -> dict[str, list[str]]:
    """What comes before and after the content of a saved page. `live`: the content is the page's answers as JSON, and
    its scripts work on. `still`: the content is the page's markup, and no script runs."""
    script, style = bundle(), (STATIC / "style.css").read_text(encoding="utf-8")
    common = "default-src 'none'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    live = f"{common}; script-src '{digest(script)}'; style-src '{digest(style)}'"
    # values that scripts computed, such as the width of a bar, are style attributes in a page without scripts
    still = f"{common}; style-src-elem '{digest(style)}'; style-src-attr 'unsafe-inline'"
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    for part in (STYLES, SCRIPT, ICON):
        assert part in page, part
    icon = base64.b64encode((STATIC / "icon.svg").read_bytes()).decode()
    page = page.replace(SCRIPT, "").replace(ICON, f'href="data:image/svg+xml;base64,{icon}"')
    page = page.replace(STYLES, f"<style>{style}</style>")
    head, body, _ = re.split(r"(?<=<body>)\n|(?=</body>)", page)

    def with_policy(policy: str) -> str:
        charset = '<meta charset="utf-8">'
        return head.replace(charset, f'{charset}\n<meta http-equiv="Content-Security-Policy" content="{policy}">')

    data = '<script type="application/json" id="saved">'
    end = "</body>\n</html>\n"
    return {
        "live": [f"{with_policy(live)}\n{body}{data}", f"</script>\n<script>{script}</script>\n{end}"],
        "still": [f"{with_policy(still)}\n", end],
    }


def bundle() -> str:
    """All modules of the page in one script."""
    modules = []
    for file in sorted(STATIC.glob("*.js")):
        text = file.read_text(encoding="utf-8")
        names = [name for _, name in EXPORT.findall(text)]
        text = IMPORT.sub(lambda m: f'const {{{m[1].replace(" as ", ": ")}}} = need("{m[2]}");', text)
        text = EXPORT.sub(r"\1 \2", LATER.sub(r'later("\1")', text))
        wrong = re.search(r"^(?:import|export)\b|</script|<!--", text, re.MULTILINE)
        assert wrong is None, f"{file.name}: {wrong and wrong[0]} cannot be put into one file"
        modules.append(f'modules["{file.name}"] = () => {{\n{text}\nreturn {{ {", ".join(names)} }};\n}};\n')
    return (
        '"use strict";\n(() => {\nconst modules = {}, made = {};\n'
        "const need = (name) => (made[name] ??= modules[name]());\n"
        "const later = (name) => Promise.resolve().then(() => need(name));\n"
        f'{"".join(modules)}need("app.js");\n}})();\n'
    )


def digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
