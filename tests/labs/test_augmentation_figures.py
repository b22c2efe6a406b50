"""The figures of the lab augmentation: their numbers, counted anew; and what they show of a trainee's own file."""

import re

import pytest
import torch

from dlojz.labs import workspace
from dlojz.labs.augmentation import figures


def numbers(text):
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text.replace(",", ""))]


@pytest.fixture(scope="module")
def small():
    return [figures.transforms(), figures.drawn(2), figures.mixtures(), figures.betas(count=4000), figures.border(1000),
            figures.mask(), figures.targets(), figures.costs((2, 4), (8, 16), 1), figures.loading(32, 2)]


def test_each_is_a_picture_that_needs_nothing_from_elsewhere(small):
    for view in small:
        page = view._repr_html_()
        assert "<svg" in page or "<table" in page
        assert "<script" not in page and not re.search(r'(href|src)="(?!data:)', page)
        assert len(str(view).splitlines()) > 1 and len(page) < 300_000


def test_transforms_are_torchvision_s():
    text = str(figures.transforms())
    changes = {line.split()[0]: float(line.split()[-1]) for line in text.splitlines()[2:-1]}
    assert len(changes) == 14 and changes["Identity"] == 0 and changes["Rotate"] > 5
    assert "Rotate" in text and "9 degrees" in text  # 30 x 9 / 30
    stronger = str(figures.transforms(30))
    assert "30 degrees" in stronger


def test_the_border_is_the_expected_one():
    """For alpha = 1, computed by a sum over lambda and centres."""
    share = (torch.arange(400) + 0.5) / 400
    side = (1 - share).sqrt()
    inside = torch.stack([(place + side / 2).clamp(max=1) - (place - side / 2).clamp(min=0) for place in share])  # of one side
    kept = 1 - (inside.mean(0) ** 2).mean().item()
    said = numbers(re.search(r"Lambda has a mean of (.*) as it is", str(figures.border(8000)))[1])
    assert said == pytest.approx([0.5, kept], abs=0.02)


def test_soft_labels_add_up_and_smoothing_is_shared_out():
    rows = [numbers(line[25:]) for line in str(figures.targets()).splitlines()[2:]]
    for row in rows:
        assert sum(row[-6:-1]) == pytest.approx(1, abs=0.02)
    assert rows[1][-6:-1] == pytest.approx([0.92, 0.02, 0.02, 0.02, 0.02])
    assert rows[2][-6:-1] == pytest.approx([0.7, 0.3, 0, 0, 0])


def test_costs_count_operations():
    rows = [numbers(line) for line in str(figures.costs((2, 4, 8), (8, 16), 1)).splitlines()[2:]]
    loops, wholes = [row[-2] for row in rows], [row[-1] for row in rows]
    assert loops[1] - loops[0] == (loops[2] - loops[1]) / 2 > 2 and loops[:3] == loops[3:]
    assert len(set(wholes)) == 1


def test_the_loader_s_work_adds_up():
    lines = str(figures.loading(48, 4)).splitlines()[2:]
    plain, rand, mixed, both = (float(re.search(r"  (\d+\.\d+)", line)[1]) for line in lines)
    assert 0 < plain < rand < both and plain < mixed and both == pytest.approx(rand + mixed - plain, rel=0.5, abs=0.5)


@pytest.mark.parametrize("solved", [False, True])
def test_yours_shows_what_stands_in_the_workspace(tmp_path, monkeypatch, solved):
    workspace.create(tmp_path / "work", ["augmentation"] if solved else [])
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("DLOJZ_WORKSPACE", raising=False)
    lines = str(figures.yours()).splitlines()[1:-1]
    assert len(lines) == 12 and all(sum(numbers(line)) == pytest.approx(100, abs=3) for line in lines)
    assert any("," in line for line in lines) == solved
