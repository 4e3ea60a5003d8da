"""h2h serve: the workbench in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from headtohead.cli.entry import MACHINE, app


@app.command(rich_help_panel=MACHINE)
def serve(
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The port; the first free one from 8765.")] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Show everything, start and change nothing.")] = False,
    allow_code: Annotated[
        bool,
        typer.Option(
            "--allow-code", help="Execute code that is not part of headtohead: pasted modules, parts stored with runs."
        ),
    ] = False,
    host: Annotated[str, typer.Option(help="Another address to listen on; needs --password.")] = "127.0.0.1",
    password: Annotated[
        str, typer.Option(help="For --host: 12 characters or more.", envvar="HEADTOHEAD_PASSWORD", show_envvar=True)
    ] = "",
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", help="Another name of this machine, such as that of a proxy.")
    ] = None,
    allow_frame: Annotated[
        list[str] | None,
        typer.Option("--allow-frame", help="A site that may show the pages in a frame: http://localhost:8888"),
    ] = None,
    base_path: Annotated[
        str, typer.Option(help="The path of a proxy, such as /user/ann/proxy/8765; it may keep it or take it away.")
    ] = "",
    for_parent: Annotated[bool, typer.Option("--for-parent", hidden=True)] = False,
) -> None:
    """Open the workbench in a browser.

    Pages: verdicts and studies, live; composing a study; the inside of models; audits, puzzles and published claims.
    The server listens on this machine only and needs no network. The printed address has a token: do not share it.
    """
    from headtohead.errors import needs_extra

    try:
        from headtohead.web.server import serve as run
    except ModuleNotFoundError:
        raise needs_extra("the workbench", "web") from None
    run(
        port=port,
        host=host,
        password=password,
        allow_hosts=tuple(allow_host or ()),
        allow_frames=tuple(allow_frame or ()),
        base_path=base_path,
        read_only=read_only,
        allow_code=allow_code,
        open_page=open_page,
        for_parent=for_parent,
    )
