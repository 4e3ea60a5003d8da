"""The workbench behind a proxy path and inside a notebook's frame, in a real browser."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from headtohead import InputError
from headtohead.outcome.serving import Served
from headtohead.web.security import LOOPBACK, Access
from helpers.proxies import page_with, proxied
from helpers.web import TOKEN, expect, open_page, served

BASE = "/user/ann/proxy/8765"


@pytest.mark.parametrize("keeps", [False, True])
def test_pages_work_below_the_path_of_a_proxy(store: Path, browser, keeps):
    options = {"base_path": f"{BASE}/"} if keeps else {}
    with served(store, **options) as server, proxied(server.port, BASE, keeps) as port:
        at = f"http://127.0.0.1:{port}{BASE}/"
        with open_page(browser, f"{at}?token={TOKEN}") as page:
            page.locator("[role=row] a.question").first.click()
            page.locator("svg.figure path.line").first.wait_for()
            assert page.url == f"{at}#/study/tiny"
            (cookie,) = page.context.cookies()
            assert cookie["path"] == BASE  # other servers of the proxy do not get it
            assert cookie["sameSite"] == "Strict"
            look = "fetch('api/puzzles/solve/look', { method: 'POST', headers: { 'x-h2h': '1' }, body: BODY })"
            body = "JSON.stringify({ which: 'select', given: {} })"
            assert page.evaluate(f"{look.replace('BODY', body)}.then((answer) => answer.status)") == 200


def test_a_base_path_is_also_taken_where_the_proxy_removes_it(store: Path):
    with served(store, base_path=BASE) as server:
        for path in ("/api/about", f"{BASE}/api/about", f"{BASE}/static/app.js"):
            assert server.request(path)[0] == 200
        status, _, headers = server.request(f"{BASE}?token=x")
        assert (status, headers["location"]) == (307, f"{BASE}/?token=x")
        assert server.request(f"{BASE}x/api/about")[0] == 404
        assert server.request(f"{BASE}/api/about", cookie=False)[0] == 401
    with pytest.raises(InputError, match="no path such as"):
        Access(TOKEN, 1, base_path="/a b;c")


def test_a_proxy_is_known_by_the_name_that_the_user_gave(store: Path):
    hub = {"host": "hub.example.org", "origin": "https://hub.example.org"}
    with served(store) as server:
        assert server.request("/api/about", headers=hub)[0] == 421
    with served(store, hosts=(*LOOPBACK, "hub.example.org")) as server:
        assert server.request("/api/about", headers=hub)[0] == 200
        post = "/api/compose/look"
        assert server.request(post, {}, headers=hub)[0] not in (403, 421)
        inner = {"host": f"127.0.0.1:{server.port}"}  # a proxy that asks with its own name
        assert server.request(post, {}, headers=hub | inner)[0] not in (403, 421)
        for foreign in ("https://evil.example", "http://localhost:1", "https://hub.example.org.evil.example", "null"):
            assert server.request(post, {}, headers=inner | {"origin": foreign})[0] == 403
            assert server.request("/api/about", headers=inner | {"origin": foreign})[0] == 403
        assert server.request("/api/about", headers=hub | inner)[0] == 200


@pytest.mark.parametrize("allowed", [True, False])
def test_a_notebook_shows_the_page_in_a_frame_if_it_is_allowed(store: Path, browser, allowed):
    """A notebook at localhost on another port is the same site: the Strict cookie is sent."""
    frames = ("http://localhost:*", "http://127.0.0.1:*") if allowed else ()
    with served(store, frames=frames) as server:
        shown = Served(SimpleNamespace(poll=lambda: None), f"{server.url}#/study/tiny")._repr_html_()
        with page_with(f"<!doctype html><title>notebook</title>{shown}") as port:
            for host in ("localhost", "127.0.0.1"):
                page = browser.new_page()
                said: list[str] = []
                page.on("console", lambda line, said=said: said.append(line.text))
                page.goto(f"http://{host}:{port}/")
                frame = page.frame_locator("iframe")
                if allowed:
                    frame.locator("svg.figure path.line").first.wait_for()
                    assert page.frames[1].url == f"http://{host}:{server.port}/#/study/tiny"
                    assert said == []
                else:
                    page.wait_for_timeout(1000)
                    assert any("frame-ancestors" in line for line in said)
                    expect(frame.locator("main")).to_have_count(0)
                page.close()


def test_no_other_site_is_added_to_the_policy():
    assert (
        "frame-ancestors 'self' http://localhost:8888"
        in (Access(TOKEN, 1, frames=("http://localhost:8888",)).headers["content-security-policy"])
    )
    for site in ("*", "http://a; script-src *", "javascript:x", "http://a b", "https://a/path"):
        with pytest.raises(InputError, match="no site such as"):
            Access(TOKEN, 1, frames=(site,))
