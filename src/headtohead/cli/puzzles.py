"""h2h puzzles: puzzles about attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headtohead.cli.entry import INSIDE, app
from headtohead.cli.options import AsJson
from headtohead.cli.printing import console, plain, print_json

if TYPE_CHECKING:
    from headtohead.puzzles import Answer, Checked, Puzzle

puzzles = typer.Typer(help="Puzzles about attention: show, solve, check, explain.")
app.add_typer(puzzles, name="puzzles", rich_help_panel=INSIDE)

Which = Annotated[str, typer.Argument(help="The puzzle's number, or its name.")]
Out = Annotated[str | None, typer.Option(help="A picture: .png, .svg or .pdf")]
Within = Annotated[float, typer.Option(help="Largest share of attention that may be in the wrong place.")]
Keys = Annotated[str | None, typer.Option(help="Other keys, one per row: '1,0,0;0,1,0;…' (1 to 6, 14).")]
Weights = Annotated[str | None, typer.Option(help="The target weights, such as 0.5,0.3,0.2 (14).")]
Back = Annotated[str | None, typer.Option(help="Number of tokens back (12, 13).")]
Theta = Annotated[str | None, typer.Option(help="Theta of the rotary positions (12).")]
Width = Annotated[str | None, typer.Option(help="Dimension of a vector (9), of the head (12).")]
Length = Annotated[str | None, typer.Option(help="Tokens of a text, an odd number (10).")]


@puzzles.callback(invoke_without_command=True)
def listing(context: typer.Context, as_json: AsJson = False) -> None:
    """Puzzles about attention: what can a query, a key or a head do?"""
    if context.invoked_subcommand is not None:
        return
    from headtohead.puzzles import ALL

    rows = [{"puzzle": p.number, "name": p.name, "title": p.title, "answer": p.asks} for p in ALL.values()]
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table("", "name", "puzzle", "answer with")
    for p in ALL.values():
        table.add_row(*map(plain, (p.number, p.name, p.title, " ".join(f"--{name}" for name in p.asks))))
    console().print(table)
    print("h2h puzzles show 1, solve 1, check 1 --query 1,2,3, published")


@puzzles.command()
def show(
    which: Which,
    keys: Keys = None,
    query: Annotated[str | None, typer.Option(help="Another fixed query (5, 6).")] = None,
    weights: Weights = None,
    back: Back = None,
    theta: Theta = None,
    width: Width = None,
    length: Length = None,
    as_json: AsJson = False,
) -> None:
    """Show the question and the form of its answer."""
    p = _posed(which, keys=keys, query=query, weights=weights, back=back, theta=theta, width=width, length=length)
    if as_json:
        print_json(p.to_json())
        return
    _say(f"puzzle {p.number}: {p.title}", p.statement, *(f"--{name:<7} {help}" for name, help in p.asks.items()))


@puzzles.command()
def explain(which: Which, as_json: AsJson = False) -> None:
    """Explain the answer, and when there is none."""
    p = _posed(which)
    if as_json:
        print_json(p.to_json())
        return
    _say(f"puzzle {p.number}: {p.title}", p.explanation)


@puzzles.command()
def solve(
    which: Which,
    keys: Keys = None,
    query: Annotated[str | None, typer.Option(help="Another fixed query (5, 6).")] = None,
    weights: Weights = None,
    back: Back = None,
    theta: Theta = None,
    width: Width = None,
    length: Length = None,
    within: Within = 0.05,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Find the best answer and its error. Exit 1 if the error is too large."""
    p = _posed(which, keys=keys, query=query, weights=weights, back=back, theta=theta, width=width, length=length)
    _finish(p.solve(_share(within)), out, as_json)


@puzzles.command()
def check(
    which: Which,
    query: Annotated[
        str | None, typer.Option(help="1,2,3 or rows '1,2,3;4,5,6;…' (1 to 4, 14); fixed query (5, 6).")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The third key: 1,2,3 (5, 6).")] = None,
    shift: Annotated[str | None, typer.Option(help="Tokens the query is turned back (7).")] = None,
    scale: Annotated[str | None, typer.Option(help="Factor of the scores (7, 9, 12; two in 11).")] = None,
    score: Annotated[str | None, typer.Option(help="Score of the first position (8).")] = None,
    tilt: Annotated[str | None, typer.Option(help="How much higher a scores than b (10).")] = None,
    angle: Annotated[str | None, typer.Option(help="One angle per pair, in radians: 3,0.03 (12).")] = None,
    slope: Annotated[str | None, typer.Option(help="Slope of the bias (13).")] = None,
    keys: Keys = None,
    weights: Weights = None,
    back: Back = None,
    theta: Theta = None,
    width: Width = None,
    length: Length = None,
    within: Within = 0.05,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Check your answer: h2h puzzles check 3 --query 1,2,3. Exit 1 if it is wrong."""
    from headtohead.puzzles import split

    given = {"query": query, "key": key, "shift": shift, "scale": scale, "score": score, "tilt": tilt, "angle": angle}
    given |= {"slope": slope, "keys": keys, "weights": weights, "back": back, "theta": theta, "width": width}
    posed, answer = split(which, {name: text for name, text in {**given, "length": length}.items() if text is not None})
    _finish(posed.check(_share(within), **answer), out, as_json)


@puzzles.command()
def published(as_json: AsJson = False) -> None:
    """Compare the six published answers with ours, and show the weights that they give."""
    from headtohead.puzzles.listing import rows, show

    found = rows()
    if as_json:
        print_json(found)
    else:
        show(found, console())


def _posed(which: str, **given: str | None) -> Puzzle:
    from headtohead.puzzles import puzzle

    return puzzle(which, **{name: text for name, text in given.items() if text is not None})


def _share(within: float) -> float:
    from headtohead.puzzles import reading

    return reading.number("within", within, 0.0, 1.0)


def _finish(answer: Answer | Checked, out: str | None, as_json: bool) -> None:
    if out is not None:
        from headtohead.puzzles import pictures

        pictures.save(answer.puzzle.picture(answer), out)
    if as_json:
        print_json(answer.to_json())
    else:
        answer.show(console())
    raise typer.Exit(0 if answer.ok else 1)


def _say(*paragraphs: Any) -> None:
    for text in paragraphs:
        console().print(plain(text))
