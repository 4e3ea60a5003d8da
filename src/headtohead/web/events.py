"""What changes in the store, as server-sent events. One thread watches the store for all pages that are open."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from headtohead.run import files, store
from headtohead.run.progress import read_progress
from headtohead.web.index import Index, study_names

EVERY = 1.0  # seconds between two looks at what is trained now
PAUSE, LONGEST = 30, 10.0  # a look at the whole store is followed by a pause of 30 times its length, up to 10 seconds
BEAT = 15.0  # seconds after which a line is sent without news, so that a dead connection is noticed


class Watcher:
    """Looks at the store and tells every open page what has changed."""

    def __init__(self, index: Index) -> None:
        self.index, self.home = index, index.home
        self._pages: set[asyncio.Queue[str]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = threading.Event()
        self._progress: dict[str, Any] = {}
        self.ready = threading.Event()  # the whole store was looked at once

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        threading.Thread(target=self._watch, name="store watcher", daemon=True).start()

    def stop(self) -> None:
        """End the events of all pages, too: a server waits for its open answers."""
        self._stop.set()
        if self._loop is not None and not self._loop.is_closed():
            for page in tuple(self._pages):
                self._loop.call_soon_threadsafe(page.put_nowait, ": the server ends\n\n")

    def _watch(self) -> None:
        following = 0.0
        while not self._stop.is_set():
            began = time.monotonic()
            if began >= following:
                for name, row in self.index.refresh():
                    self._tell("study", {"name": name, "row": row})
                    if self._stop.is_set():
                        return
                now = time.monotonic()
                following = now + min(PAUSE * (now - began), LONGEST)
            if not self.ready.is_set():
                self.ready.set()
                self._tell("ready", {"studies": len(self.index.rows())})
            self._tell_progress()
            self._stop.wait(EVERY)

    def _tell_progress(self) -> None:
        now = self.progress()
        if now != self._progress:
            self._progress = now
            self._tell("progress", now)

    def progress(self) -> dict[str, Any]:
        """The studies that are being trained, by name."""
        found = {name: read_progress(self.home / files.STUDIES / name) for name in study_names(self.home)}
        return {name: state for name, state in found.items() if state is not None}

    def _tell(self, kind: str, value: Any) -> None:
        text = f"event: {kind}\ndata: {json.dumps(store.plain(value))}\n\n"
        if self._loop is not None and not self._loop.is_closed():
            for page in tuple(self._pages):
                self._loop.call_soon_threadsafe(page.put_nowait, text)

    async def follow(self) -> AsyncIterator[str]:
        """The events of one page, from now on."""
        page: asyncio.Queue[str] = asyncio.Queue()
        self._pages.add(page)
        try:
            yield f"retry: 1000\nevent: hello\ndata: {json.dumps({'ready': self.ready.is_set()})}\n\n"
            yield f"event: progress\ndata: {json.dumps(store.plain(self.progress()))}\n\n"
            while not self._stop.is_set():
                try:
                    yield await asyncio.wait_for(page.get(), BEAT)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._pages.discard(page)
