"""h2h puzzles on the command line: output, exit codes, one-line errors, pictures."""

import json
import sys

import pytest
import typer

from headtohead.cli import app, main
from headtohead.puzzles import ALL


@pytest.fixture(scope="module")
def commands():
    """The command tree, built once, because building it takes most of the time of a test."""
    return typer.main.get_command(app)


@pytest.fixture
def h2h(monkeypatch, capsys, commands):
    monkeypatch.setattr("headtohead.cli.entry.app", commands)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["h2h", "puzzles", *words])
        with pytest.raises(SystemExit) as stopped:
            main()
        printed = capsys.readouterr()
        return stopped.value.code or 0, printed.out, printed.err

    return run


def test_list_names_every_puzzle(h2h):
    code, out, _ = h2h()
    assert code == 0
    for kind in ALL.values():
        assert kind.name in out
    listed = json.loads(h2h("--json")[1])
    assert [row["puzzle"] for row in listed] == list(range(1, 15))
    assert listed[4]["answer"].keys() == {"key"}


def test_show_prints_inputs_and_explain_the_reason(h2h):
    code, out, _ = h2h("show", "5")
    assert code == 0
    assert "k3 =   0.4300   -0.8300    0.3500" in out
    assert "q =   1.1499    4.1566   -0.1848" in out
    assert "--key" in out
    assert "four" not in h2h("show", "13", "--back", "4")[1]
    assert "4 back" in h2h("show", "13", "--back", "4")[1]
    assert "One head" in h2h("explain", "induction")[1]
    assert json.loads(h2h("show", "3", "--json")[1])["given"]["keys"][0] == [0.47, 0.65, 0.6]
    assert json.loads(h2h("explain", "3", "--json")[1])["explanation"] == ALL[3].explanation


@pytest.mark.parametrize("number", ALL)
def test_solve_prints_what_check_accepts(h2h, number):
    code, out, _ = h2h("solve", str(number))
    assert code == (1 if number in (6, 13) else 0)
    typed = out.rpartition("h2h puzzles ")[2].replace("'", "").split()
    assert typed[:2] == ["check", str(number)]
    assert h2h(*typed)[0] == code


def test_solve_as_json(h2h):
    for number in (2, 6, 12):
        code, out, _ = h2h("solve", str(number), "--json")
        solved = json.loads(out)
        assert solved["ok"] is (code == 0)
        assert solved["kind"] == "in the limit"
        assert set(solved["answer"]) == set(ALL[number].asks)


def test_check_exits_with_1_for_a_wrong_answer(h2h):
    code, out, _ = h2h("check", "3", "--query", "1,2,3")
    assert code == 1
    assert out.startswith("no: 0.7 of the attention is in the wrong place")
    assert "0.9533    0.0236    0.0007    0.0224" in out
    assert h2h("check", "3", "--query", "0,0,0")[0] == 0
    assert h2h("check", "1", "--query", "-10,10,10")[0] == 0  # a leading minus is a number, not an option
    checked = json.loads(h2h("check", "4", "--query", "1.15,4.1566,-0.1848", "--within", "0.06", "--json")[1])
    assert checked["ok"]
    assert checked["weights"][0] == pytest.approx([0.549, 0.446, 0.004, 0.001], abs=1e-3)
    assert h2h("check", "6", "--query", "20,80,-3", "--key", "0.2425,0.9701,0")[0] == 0
    assert h2h("check", "1", "--keys", "1,0;0,1;-1,-1", "--query", "9,-9")[0] == 0


def test_published_lists_the_six_answers(h2h):
    code, out, _ = h2h("published")
    assert code == 0
    assert "not within 0.05" in out
    rows = json.loads(h2h("published", "--json")[1])
    assert [row["puzzle"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[0]["reproduced"] is True


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("check 3 --query nan,1,2", "not finite"),
        ("check 3 --query inf,1,2", "not finite"),
        ("check 3 --query 1e999,1,2", "not finite"),
        ("check 3 --query 1e200,1,2", "beyond"),
        ("check 3 --query 1,2", "takes 3 numbers, not 2"),
        ("check 3 --query 1,2;3,4", "2 rows of 2"),
        ("check 2 --query 1,2,3", "4 rows of 3 numbers, not 1 of 3"),
        ("check 3 --query=", "a number is missing"),
        ("check 3 --query 1,,2", "a number is missing"),
        ("check 3 --query a,b,c", "'a' is not a number"),
        ("check 3", "asks for --query: such as h2h puzzles check 3 --query 1,2,3"),
        ("check 7 --shift 1", "asks for --scale"),
        ("check 3 --slope 1", "takes no --slope"),
        ("check 99 --query 1", "no puzzle '99'"),
        ("show ²", "no puzzle"),
        ("solve 1 --query 1,2,3", "is the answer to puzzle 1"),
        ("solve 1 --keys 1,2;3", "rows of one length"),
        ("check 13 --slope 0", "--slope takes a number"),
        ("check 11 --scale 5", "takes 2 numbers, not 1"),
        ("solve 3 --within 2", "--within"),
        ("solve 3 --within nan", "--within"),
        ("solve 3 --out x.bmp", "end the name with .png"),
        ("3", "No such command"),
    ],
)
def test_wrong_input_is_one_line_with_exit_code_2(h2h, words, says):
    code, out, err = h2h(*words.split())
    assert code == 2
    assert out == ""
    assert says in err
    assert err.startswith("h2h: ")
    assert err.count("\n") == 1


def test_check_draws_the_users_answer(h2h, tmp_path):
    file = tmp_path / "mine.png"
    assert h2h("check", "3", "--query", "1,2,3", "--out", str(file))[0] == 1
    assert file.read_bytes()[:4] == b"\x89PNG"


def test_a_picture_that_cannot_be_written_is_one_line(h2h):
    code, _, err = h2h("solve", "3", "--out", "/dev/null/x.png")
    assert code == 3
    assert "cannot write" in err
    assert err.count("\n") == 1
