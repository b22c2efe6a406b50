"""The cheat sheet: every number comes from a record, every switch and lab is there."""

import json
import re

import pytest

from dlojz import cli
from dlojz.labs import catalogue, cheatsheet
from dlojz.labs.audit import judge
from dlojz.system import paths

ALL = [one for methods in cheatsheet.METHODS.values() for one in methods]


def test_numbers_are_those_of_the_records(tmp_path, capsys):
    assert cli.main(["cheatsheet", "--html", str(tmp_path / "sheet.html")]) == 0
    cells = {row[0]: row for methods in cheatsheet.METHODS.values() for row in cheatsheet.cells(methods)}

    def read(name):
        return json.loads(paths.share("docs", "results", f"{name}.json").read_text())

    one, _, four = (row["images_per_second"] for row in read("scaling-4x-nvidia-h200")["rows"])
    assert cells["DDP"][2] == f"{four / one:.2f}x"
    parts = {row["name"]: row for row in read("memory-1x-nvidia-h200")["techniques"]}
    whole, saved = parts["as it is"], parts["recompute blocks"]
    ratios = whole["step_ms"] / saved["step_ms"], saved["bytes"] / whole["bytes"]
    assert cells["recompute blocks"][2:4] == [f"{ratio:.2f}x" for ratio in ratios]
    text = (tmp_path / "sheet.html").read_text()
    assert all(f">{cell[2]}<" in text for cell in cells.values()) and "@page" in text


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.what)
def test_each_method_has_a_lab_and_switches_that_are_there(one):
    assert one.lab in catalogue.labs() and re.fullmatch(r"[\d.]+x", one.measured().speed)
    known = "".join(path.read_text() for path in [paths.PACKAGE / "training" / "options.py",
                                                  *(paths.PACKAGE / "reference").glob("train*.py")])
    assert all(switch in known for switch in re.findall(r"--[a-z][a-z-]+", one.how))
    assert len(one.when) < 100, "two pages"


def test_each_technique_of_an_audit_has_a_row_with_its_lab_and_pytorch_s_page(tmp_path):
    view, rows = cheatsheet.cheatsheet(), cheatsheet.looked_at()
    assert [row[0] for row in rows] == list(judge.TECHNIQUES)
    for technique, how, lab, docs in rows:
        assert how and lab in catalogue.labs() and docs.startswith("https://docs.pytorch.org/")
        assert f"{technique} " in view.text and f'href="{docs}"' in view.page
    assert {one.row for one in judge.TECHNIQUES.values()} <= {"", *(one.what for one in ALL)}


def test_a_record_that_has_changed_is_noticed():
    with pytest.raises(LookupError, match="has no row with"):
        cheatsheet._row("scaling-4x-nvidia-h200", name="5 processes")
