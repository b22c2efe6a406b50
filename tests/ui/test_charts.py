"""The chart forms: the numbers are there as text, the picture reads on any page, and nothing of matplotlib's is shared."""

import math
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import pytest

from dlojz.ui import charts, palette
from dlojz.ui.axes import shares, thinned, wide
from dlojz.ui.charts import Bar, Bracket, Lane, Line, Mark, Point, Rule, Span

LONG = "a name that is much too long for the room that there is beside the bars of a chart"


def forms() -> dict[str, charts.Chart]:
    losses = [(step, 2.3 * math.exp(-step / 200) + 0.1 * math.sin(step)) for step in range(600)]
    step = ((0, 0.03, "forward"), (0.03, 0.1, "backward"))
    near = [Span(0.1 * i + begin, 0.1 * i + end, what) for i in range(4) for begin, end, what in step]
    return {
        "lines": charts.lines([Line("amp <fp16>", losses), Line("fp32", losses), Line("none")], x="step", y="loss",
                              rules=[Rule(1.5, "goal 1.5")], marks=[Mark(600, 2.0, "the end", marker="x")]),
        "log": charts.lines([Line("DDP", [(1, 100.0), (2, 190.0), (16, 1100.0)], marker="o")], x="processes", y="images/s",
                            log="xy", x_ticks=[1, 2, 16]),
        "bars": charts.bars([("fp32", 979), Bar("bf16", 2199, low=2100, high=2300), (LONG, 3846), ("none", None)],
                            unit="images/s", baseline="fp32", title="the ladder"),
        "vertical": charts.bars([("fp32", 979), ("bf16", 2199)], unit="images/s", baseline=("you", 1200), vertical=True),
        "sizes": charts.bars([("L2", 50.0), ("HBM", 80_000.0)], unit="MB", log=True),
        "stacked": charts.stacked([("SGD", {"parameters": 0.1, "activations": 1.4}), (LONG, {"optimizer": 0.2})], unit="GB",
                                  limit=("the card", 2.0), axis="GB", inside="value"),
        "timeline": charts.timeline([Lane("device", near, 34, [(0.0, 0.1, "step 1: 100 ms")]), Lane("loader", [])],
                                    title="from near", lines=[0.1, 0.2], brackets=[Bracket(0, 0.2, "warm-up", 0.1)]),
        "many": charts.timeline([Lane("GPU", [Span(i / 1e3, (i + 0.5) / 1e3, "forward") for i in range(2000)])]),
        "scatter": charts.scatter([Point("a", 1, 2), Point("b", 3, 5)], x="batch", y="ms"),
        "roofline": charts.roofline([Point("conv", 120, 4e14), Point("relu", 0.25, 6e11)], peaks={"bf16": 9.9e14, "fp32": 6.7e13},
                                    bandwidths={"HBM": 3.35e12}),
        "cells": charts.cells([[1, 2, None], [3, 4, 5.5]], rows=["rank 0", "rank 1"], columns=["a", "b", "c"], unit="MB"),
        "grid": charts.grid(charts.lines([Line("amp", losses)], y="loss"), charts.lines([], y="accuracy")),
    }


@pytest.mark.parametrize("name", forms())
def test_a_picture_stands_alone_on_any_page(name):
    """Valid, small, the same each time, without ids that another figure could have, all texts inside and none on another."""
    chart = forms()[name]
    svg = chart.svg()
    root = ElementTree.fromstring(svg)
    assert svg == forms()[name].svg() and len(svg) < 40_000
    assert not re.search(r'\b(id|href|clip-path)=|url\(|<style|<metadata', svg)
    assert 'max-width: 900px' in root.get("style") and root.get("aria-label") == chart.label
    width, height = map(float, root.get("viewBox").split()[2:])
    placed = []
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        long = wide(text.text, float(text.get("font-size")))
        left = float(text.get("x")) - {"middle": long / 2, "end": long}.get(text.get("text-anchor"), 0)
        y = float(text.get("y"))
        assert left >= -8 and left + long <= width + 8 and 8 <= y <= height, (text.text, left, left + long)
        assert all(left >= other[1] - 2 or left + long <= other[0] + 2 or abs(y - other[2]) > 8 for other in placed), text.text
        placed.append((left, left + long, y))


@pytest.mark.parametrize("name", forms())
def test_ink_has_the_colour_of_the_page(name):
    """Neutral ink is currentColor; black and white are only inside of what is coloured, whichever reads better there."""
    svg = forms()[name].svg()
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg))
    assert "#010203" not in svg and "currentColor" in colours
    of_data = (*palette.COLOURS.values(), *palette.RUNS, palette.SPEED, palette.BAD, palette.GREY)
    known = {"none", "currentColor", *(value.lower() for value in of_data)}
    assert colours - known <= {"#000", "#fff"}
    for words, colour in re.findall(r'fill="(#000|#fff)"[^>]*>([^<]*)<', svg):
        assert words and colour


@pytest.mark.parametrize("colour", [*palette.PHASE.values(), *palette.RUNS, palette.SPEED, palette.MEMORY])
def test_colours_of_data_are_seen_on_white_and_on_a_dark_page(colour):
    own, dark = (palette.luminance(which) + 0.05 for which in (colour, "#15181c"))
    assert 1.05 / own > 2 and own / dark > 2


def test_the_text_says_the_numbers():
    found = {name: chart.text() for name, chart in forms().items()}
    assert "bf16" in found["bars"] and "2,199 images/s, 2.25x  2,100 to 2,300" in found["bars"]
    assert "none" in found["bars"].splitlines()[-1] and found["bars"].splitlines()[-1].endswith("-")
    assert "(you)" in found["vertical"] and "1.83x" in found["vertical"]
    assert "SGD: 1.5 GB (parameters 0.1, activations 1.4)" in found["stacked"] and "the card: 2 GB" in found["stacked"]
    assert "device: forward 120 ms, backward 280 ms" in found["timeline"] and "loader: nothing" in found["timeline"]
    assert re.search(r"16 +1,100", found["log"]) and "goal 1.5" in found["lines"]
    assert "conv: 100% of its roof" in found["roofline"] and "relu: 72% of its roof" in found["roofline"]  # 0.6 of 0.8375 TFLOP/s
    assert found["cells"].splitlines()[-1].split() == ["rank", "1", "3", "4", "5.5"]
    assert repr(forms()["bars"]) == found["bars"]


def test_numbers_are_written_where_they_belong():
    """Bars are as long as their values, whatever the page's width."""
    svg = charts.bars([("a", 100), ("b", 50)], baseline="a").svg()
    right = [float(x) for x in re.findall(r'd="M[\d.]+ [\d.]+H([\d.]+)V', svg)][:2]
    left = float(re.search(r'd="M([\d.]+) ', svg)[1])
    assert (right[1] - left) / (right[0] - left) == pytest.approx(0.5, abs=0.01)
    assert "0.50x" in svg and "<title>b: 50, 0.50x</title>" in svg


def test_a_band_of_several_seeds():
    line = Line.of_seeds("adam", [[(1, 2.0), (2, 1.0)], [(1, 4.0), (2, 1.5), (3, 9.0)]])
    assert line.points == [(1, 3.0), (2, 1.25)] and line.band == [(1, 2.0, 4.0), (2, 1.0, 1.5)]
    assert 'fill-opacity="0.16"' in charts.lines([line]).svg()


def test_the_legend_shows_the_cross_that_the_chart_has():
    html = charts.lines([Line("all", [(1, 2), (2, 3)], marker="x", colour="#112233"), Line("one", [(1, 1)], marker="o")]).html()
    crosses = re.findall(r'<span style="color: (#\w+)[^>]*>&#215;</span>(\w+)', html)
    assert crosses == [("#112233", "all")] and re.search(r'background: [^>]*></span>one<', html)


def test_lines_on_each_other_are_both_seen():
    same = [(0, 1.0), (1, 2.0), (2, 1.5)]
    svg = charts.lines([Line("a", same), Line("b", same), Line("c", [(0, 0.1), (1, 0.2)])]).svg()
    assert re.findall(r'stroke-dasharray="([^"]+)"', svg) == ["10 10"]


def test_what_lies_above_the_axis_is_an_arrow_with_its_value():
    svg = charts.lines([Line("a", [(0, 1.0), (1, 50.0), (2, 1.5)])], y_range=(0, 2)).svg()
    assert ">50</text>" in svg and "<title>a: 50</title>" in svg


def test_a_point_alone_between_gaps_is_a_dot():
    svg = charts.lines([Line("a", [(0, 1.0), (1, math.nan), (2, 1.5), (3, math.inf), (4, 2.0), (5, 2.0)])]).svg()
    assert svg.count("<circle") == 2  # 0 and 2; the others are a line


ODD = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-39, 1e39)


@pytest.mark.parametrize("value", ODD)
def test_odd_numbers_make_a_picture_all_the_same(value):
    made = [charts.lines([Line("a", [(0, value), (1, value)], marker="o")], marks=[Mark(1, value, "here", marker="x")]),
            charts.lines([Line("a", [(value, 1.0), (1, 2.0)])], log="xy"), charts.lines([Line("a", [(1, value)])], log="xy"),
            charts.bars([("a", value), ("b", 1.0)], baseline="a"),
            charts.bars([("a", value)], vertical=True, baseline=("b", value)),
            charts.bars([("a", value)], log=True), charts.stacked([("a", {"x": value})], limit=("card", 1.0)),
            charts.timeline([Lane("a", [Span(0.0, value, "x")])]), charts.cells([[value, 1.0]], rows=["a"], columns=["b", "c"]),
            charts.scatter([Point("a", value, value)], log="xy")]
    for chart in made:
        ElementTree.fromstring(chart.svg())
        assert "nan" not in re.sub(r"<title>.*?</title>", "", chart.svg())


@pytest.mark.parametrize("form", [lambda: charts.lines([]), lambda: charts.bars([]), lambda: charts.stacked([]),
                                  lambda: charts.timeline([]), lambda: charts.cells([], rows=[], columns=[]),
                                  lambda: charts.scatter([])])
def test_nothing_makes_a_picture_too(form):
    ElementTree.fromstring(form().svg())


def test_dollars_and_tags_in_names_are_text():
    svg = charts.bars([("$x^2$ <b>", 1.0)], title="a & b").svg()
    assert "$x^2$ &lt;b&gt;" in svg and "a &amp; b" in svg


def test_shares_of_columns():
    spans = [Span(0.0, 1.0, "a"), Span(1.0, 1.5, "b"), Span(3.0, 9.0, "a")]
    assert shares(spans, 0.0, 4.0, 4) == {"a": [1.0, 0.0, 0.0, 1.0], "b": [0.0, 0.5, 0.0, 0.0]}


def test_thinning_keeps_means_and_extremes():
    means, bands = thinned([(0, 1.0), (1, 3.0), (2, math.nan), (3, 5.0), (4, 7.0)], 2)
    assert means == [(0.5, 2.0), (3.5, 6.0)] and bands == [(0.5, 1.0, 3.0), (3.5, 5.0, 7.0)]


def test_threads_draw_at_the_same_time():
    """As callbacks of widgets do, in JupyterLab 4.4 with ipykernel 7."""
    expected = {name: chart.svg() for name, chart in forms().items()}
    with ThreadPoolExecutor(4) as pool:
        assert dict(zip(expected, pool.map(lambda name: forms()[name].svg(), expected))) == expected


def test_the_users_settings_of_matplotlib_change_nothing_and_stay():
    import matplotlib

    before = {name: chart.svg() for name, chart in forms().items()}
    mine = {"axes.grid": True, "lines.linewidth": 9, "text.color": "red", "xtick.labelsize": 30, "font.size": 25,
            "lines.marker": "s", "axes.facecolor": "black", "svg.fonttype": "path", "axes.xmargin": 0.4,
            "xtick.minor.visible": True, "path.simplify": False, "figure.dpi": 300, "axes.unicode_minus": False}
    with matplotlib.rc_context(mine):
        assert {name: chart.svg() for name, chart in forms().items()} == before
        assert matplotlib.rcParams["font.size"] == 25


def test_matplotlib_is_imported_when_a_chart_is_drawn_and_pyplot_never():
    code = """
import sys
from dlojz.ui import charts
chart = charts.bars([("a", 1)])
print(chart)
assert "matplotlib" not in sys.modules
assert "<svg" in chart.svg()
assert "matplotlib.figure" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
