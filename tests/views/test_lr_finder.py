"""The learning rate finder's view, and curves of groups, against records worked out by hand."""

import re
import sys

import pytest
from runs_by_hand import VALIDATION, end, record, start, steps

from dlojz import views
from dlojz.ui import palette

finder, curves = (sys.modules[f"dlojz.views.{name}"] for name in ("lr_finder", "curves"))


def swept(rates, losses, **args):
    return record(start(**args), {"event": "sweep", "rates": rates, "losses": losses}, *steps(), VALIDATION, end())


RATES = [10.0**power for power in range(-5, 2)]


def test_where_it_falls_fastest_is_lowest_and_diverges():
    assert finder.read(RATES, [2.0, 2.0, 1.9, 1.0, 0.8, 1.1, 4.0]) == (1e-2, 1e-1, 10.0)
    assert finder.read(RATES, [2.0, 2.0, 1.9, 1.0, 0.8, 0.7, 0.6])[1:] == (10.0, None)
    assert finder.read(RATES, [2.0, 2.0, 1.9, 1.0, 0.8, float("nan"), float("inf")]) == (1e-2, 1e-1, 1.0)
    assert finder.read([1.0], [2.0]) == (None, None, None)


def test_the_running_mean_begins_with_the_first_loss():
    assert finder.smoothed([2.0, 2.0, 2.0]) == pytest.approx([2.0] * 3)
    assert finder.smoothed([1.0, 2.0])[1] == pytest.approx((0.8 * 0.2 * 1 + 0.2 * 2) / (1 - 0.64))


def test_a_sweep_by_hand():
    flat = [2.0, 2.0, 2.0, 1.0, 0.2, 0.2, 9.0]
    view = views.lr_finder(swept(RATES, flat, lr=0.05))
    [_, head, row, note] = str(view).split("\n")
    assert head.split("  ")[0] == "run" and row.split()[-1] == "0.05"
    assert row.split()[1:4] == ["1e-05", "to", "10"] and "10" in row.split()[4:]
    assert re.search(r"stay well below 10. A rate to begin with is 0\.1, a tenth", note)
    assert "<svg" in view.page and ">falls fastest<" in view.page
    assert "does not diverge up to 10" in str(views.lr_finder(swept(RATES, [2.0, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4])))


def test_a_run_without_a_sweep_says_how_to_get_one():
    view = views.lr_finder(record(start(), *steps(), end()))
    assert "has swept no learning rates. Submit train.py with --find-lr" in str(view) and "<svg" not in view.page
    both = views.lr_finder(swept(RATES, [2.0, 2.0, 2.0, 1.0, 0.2, 0.2, 9.0]), record(start(), *steps(), end()))
    assert "<svg" in both.page and len(str(both).split("\n")) == 6


# --- groups ---------------------------------------------------------------------------------------------------------------


def seed(loss, accuracy=0.5, last=10):
    validation = {**VALIDATION, "accuracy": accuracy, "loss": loss}
    return record(start(), *[step | {"loss": loss} for step in steps(last=last)], validation, end())


def test_a_group_is_one_line_in_a_band():
    view = views.curves({"SGD": [seed(1.0, 0.5), seed(2.0, 0.6), seed(1.5, 0.7)], "LAMB": [seed(3.0), seed(4.0)]})
    assert [re.split(r"\s{2,}", row.strip()) for row in str(view).split("\n")[1:]] == [
        ["group", "runs", "steps", "loss", "validation loss", "accuracy", "learning rate"],
        ["SGD", "3", "10", "1.5000 (1.0000 to 2.0000)", "1.5000 (1.0000 to 2.0000)", "60.0% (50.0% to 70.0%)", "0.1"],
        ["LAMB", "2", "10", "3.5000 (3.0000 to 4.0000)", "3.5000 (3.0000 to 4.0000)", "50.0% (50.0% to 50.0%)", "0.1"]]
    assert all(colour in view.page for colour in palette.RUNS[:2]) and "bands: from the lowest to the highest" in view.page


def test_the_runs_of_a_group_meet_at_the_same_places():
    assert curves._aligned([[(0, 0.0), (2, 2.0), (4, 4.0)], [(1, 10.0), (3, 30.0)]]) == [[(2, 2.0)], [(2, 20.0)]]
    assert curves._aligned([[], [(1, 10.0), (3, 30.0)]]) == [[(1, 10.0), (3, 30.0)]]
    assert "<svg" in views.curves({"one": [seed(1.0), seed(2.0, last=4)], "none": record(start())}, by="time").page


def test_groups_and_single_runs_in_one_figure():
    rows = str(views.curves({"SGD": [seed(1.0), seed(2.0)]}, seed(5.0))).split("\n")[2:]
    assert [row.split()[0] for row in rows[:2]] == ["SGD", "run"] and "5.0000" in rows[1] and "(" not in rows[1]
