"""Photograph the pages of `h2h serve` into docs/pictures/serve: python tools/serve_pictures.py STORE

STORE is a store with the study of `h2h demo`. Needs Chromium, playwright and pillow.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

from headtohead.errors import InputError
from headtohead.outcome.serving import serve

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "serve"
MOST = 250_000  # bytes
# name: page, what must be shown, width, height, dark, where to scroll to
SHOTS: dict[str, tuple[str, str, int, int, bool, str]] = {
    "board": ("board", "svg.interval", 1200, 560, False, ""),
    "study": ("study/demo", "svg.figure path.line", 1200, 900, False, ""),
    "curves-dark": ("study/demo?paired=1", "svg.figure path.line", 1200, 560, True, "h2:has-text('Learning curves')"),
    "phone": ("study/demo", "svg.figure path.line", 390, 844, False, ""),
    "inside": ("inside/demo?head=0.1", "canvas.map", 1200, 900, False, "h2:has-text('Heads')"),
    "compose": (
        "compose?vary.model.position=Learned,Rope,Alibi",
        "[data-figure=compose-forecast]",
        1200,
        900,
        False,
        "",
    ),
    "audit": ("audit?part=Local", ".tokengrid", 1200, 760, True, ""),
    "puzzles": ("puzzles", "[data-figure]", 1200, 900, False, ""),
}


def photograph(browser: Any, url: str, shot: tuple[str, str, int, int, bool, str]) -> bytes:
    page, shown, width, height, dark, to = shot
    scheme = "dark" if dark else "light"
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(f"{url}#/{page}")
    tab.locator(shown).first.wait_for(timeout=300_000)
    tab.wait_for_timeout(1500)
    tab.locator(".measuring progress").wait_for(state="detached", timeout=300_000)  # of Compose
    if to:
        tab.locator(to).evaluate("(element) => scrollBy(0, element.getBoundingClientRect().top - 60)")
        tab.wait_for_timeout(300)
    found: bytes = tab.screenshot()
    context.close()
    return found


def small(png: bytes) -> bytes:
    """The same picture with 128 colours: a third of the bytes."""
    from PIL import Image

    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def main(store: Path) -> None:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium")
    if program is None or not (store / "studies" / "demo").is_dir():
        raise InputError("needs Chromium and a store with the study of h2h demo")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with serve(store) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for name, shot in SHOTS.items():
            png = small(photograph(browser, server.url, shot))
            if len(png) > MOST:
                raise InputError(f"{name}: {len(png):,} bytes are more than {MOST:,}")
            (PICTURES / f"{name}.png").write_bytes(png)
            print(f"{name}: {len(png):,} bytes")
        browser.close()


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except (InputError, IndexError) as error:
        sys.exit(f"serve_pictures: {error}" if isinstance(error, InputError) else __doc__)
