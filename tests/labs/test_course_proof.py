"""`dlojz lab course`: the whole course in a table, made of what `dlojz lab test` does for one lab."""

import re

import pytest

from dlojz import cli
from dlojz.labs import catalogue, proof


@pytest.fixture
def tried(monkeypatch):
    """What was executed; amp accepts a wrong answer, and the notebook of channels_last stops."""
    done = []

    def proofs(lab, words=""):
        yield "stub", "", ""
        for number in range(3):
            yield "wrong", "one must be WRONG" if (lab, number) == ("amp", 1) else "", ""
        yield from [("right", "", "")] * 2

    def executed(file, state, site="laptop", within=None, patience=1):
        done.append((file, state, site, within))
        return "cell 3 stops" if "channels_last" in file else ""

    monkeypatch.setattr(proof, "proofs", proofs)
    monkeypatch.setattr(proof, "executed", executed)
    return done


def rows(text):
    lines = text.splitlines()
    table = lines[next(at for at, line in enumerate(lines) if line.startswith("lab  ")) + 1:]
    return {cells[0]: cells[1:-1] for line in table if len(cells := re.split(r"\s{2,}", line)) > 2}


def test_the_whole_course(tried, capsys):
    assert cli.main(["lab", "course"]) == 1
    out = capsys.readouterr().out
    found = rows(out)
    assert list(found) == ["day0_start", *catalogue.labs()]
    assert found["gpu"] == ["ok", "3 of 3", "2 of 2", "ok"] and found["amp"] == ["ok", "2 of 3", "2 of 2", "ok"]
    assert found["profiler_hunt"][-1] == "ok (the same)" and found["channels_last"][-1] == "not ok"
    assert "2 things are wrong" in out and "✗ amp: one must be WRONG" in out and "✗ channels_last: cell 3 stops" in out
    files = [file for file, *_ in tried]
    assert len(set(files)) == len(files) and files[0] == "day0_start.ipynb"
    assert {(state, site) for _, state, site, _ in tried} == {("solved", "laptop")}


def test_a_part_of_it(tried, capsys):
    assert cli.main(["lab", "course", "gpu", "--only", "check"]) == 0 and not tried
    assert rows(capsys.readouterr().out) == {"gpu": ["ok", "3 of 3", "2 of 2"]}
    assert cli.main(["lab", "course", "gpu", "--only", "notebook", "--site", "test-cluster", "--within", "/shared"]) == 0
    assert tried == [("day1_1_gpu.ipynb", "solved", "test-cluster", "/shared")] and "nothing is wrong" in capsys.readouterr().out
    assert cli.main(["lab", "course", "gpo"]) == 2 and "did you mean 'gpu'" in capsys.readouterr().err


@pytest.mark.parametrize("done", [0, 1])
def test_what_was_interrupted_is_not_said_to_be_right(tried, monkeypatch, capsys, done):
    def executed(file, *_, **__):
        if ("gpu" in file and not done) or "amp" in file:
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr(proof, "executed", executed)
    assert cli.main(["lab", "course", "gpu", "amp", "--only", "notebook"]) == 130
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == ("Interrupted: the table has only what was proved by then" if done else
                                    "Interrupted before the first lab was proved")
    assert ("nothing is wrong" in out) == bool(done) and list(rows(out) if done else []) == ["gpu"] * done
