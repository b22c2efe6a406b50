"""The figures of the lab ddp_advanced: each says in its text what it shows, and the table of dead ranks is right."""

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from dlojz.labs.ddp_advanced import figures
from dlojz.system.errors import UsageError
from dlojz.training.records import Record


def words_in(page):
    [svg] = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    root = ElementTree.fromstring(svg)
    return [element.text for element in root.iter() if element.tag.endswith("text")]


@pytest.mark.parametrize("view, said", [
    (figures.buckets(), ["bucket 1", "heads.1", "trunk.0", "never full: not sent", "full: it waits for its turn"]),
    (figures.groups(), ["no_sync in all batches but the last", "gradients sent in every batch"]),
    (figures.uneven(), ["as they are", "Join", "2 batches of rank 0 are not trained on"]),
], ids=["buckets", "groups", "uneven"])
def test_the_text_says_what_the_picture_says(view, said):
    drawn = words_in(view.page)
    for words in said:
        assert any(words in each for each in drawn) and words in repr(view)


@pytest.mark.parametrize("batches", [2, 4])
def test_a_group_has_one_all_reduce_or_as_many_as_batches(batches):
    view = figures.groups(batches)
    assert view.page.count("<title>all-reduce</title>") == 2 * (batches + 1), "two ranks"
    assert view.page.count("<title>update</title>") == 4, "two ranks, two ways"
    assert f"{batches - 1} all-reduces saved" in words_in(view.page) and f"{batches} all-reduce for one update" in repr(view)


def test_uneven_batches_are_counted():
    page = figures.uneven(5, 7).page
    assert page.count("<title>zeros</title>") == page.count("<title>left out</title>") == 2
    assert page.count("<title>waits</title>") == 1 and page.count("<title>batch 7</title>") == 1


@pytest.mark.parametrize("short, long", [(5, 5), (7, 5)])
def test_even_batches_are_not_drawn_as_uneven(short, long):
    with pytest.raises(UsageError, match=f"^short={short} and long={long} can't be drawn"):
        figures.uneven(short, long)


def job(name, *errors, state="FAILED"):
    events = [{"event": "start", "time": 100.0}, *({"event": "error", "time": 103.5, **error} for error in errors)]
    return SimpleNamespace(name=name, state=state, record=Record(events))


def test_dead_ranks():
    own = {"rank": 1, "kind": "exception", "message": "ValueError: mine"}
    seen = {"rank": 0, "kind": "lost_rank", "message": "rank 1 stopped: ValueError: mine.", "lost": [1]}
    view = figures.lost(job("raises", own, seen), job("well", state="COMPLETED"), job("two", seen | {"lost": [2, 3]}))
    lines = repr(view).splitlines()
    assert re.search(r"raises +FAILED +1 +3.5 s +rank 1 stopped: ValueError: mine\.", lines[2])
    assert re.search(r"well +COMPLETED +- +- +nothing", lines[3]) and "2, 3" in lines[4]
    assert "rank 1 stopped: ValueError: mine." in view.page and "3.5 s" in view.page


def test_a_long_message_is_whole_on_the_page():
    message = "rank 1 " + "x" * 300
    view = figures.lost(job("long", {"rank": 0, "kind": "lost_rank", "message": message, "lost": [1]}))
    assert message in view.page and max(map(len, repr(view).splitlines())) < 160
