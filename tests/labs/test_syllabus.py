"""The course map and the timetables, as lab.toml says."""

import dataclasses
import itertools

import pytest

from dlojz import cli
from dlojz.labs import catalogue, events, syllabus
from dlojz.labs.catalogue import WANTS
from dlojz.system.errors import UsageError


def lab_of(slot):
    return catalogue.labs().get(slot.what.partition(":")[0].removesuffix(" (goes on)"))


@pytest.mark.parametrize("length", syllabus.LENGTHS)
@pytest.mark.parametrize("want", ["", *WANTS])
def test_a_timetable_can_be_kept(length, want):
    """Nothing overlaps, each lab has its minutes and comes after what it needs."""
    slots = syllabus.timetable(length, want)
    assert slots[0].what == "day0_start" and all(slot.begins < slot.ends for slot in slots)
    assert all((one.day, one.ends) <= (other.day, other.begins) for one, other in itertools.pairwise(slots))
    assert all(slot.begins >= 9 * 60 and slot.ends <= 17 * 60 + syllabus.OVER for slot in slots)
    taught = {}
    for slot in slots:
        if lab := lab_of(slot):
            assert all(taught.get(need) == catalogue.lab(need).minutes for need in lab.needs), slot
            taught[lab.id] = taught.get(lab.id, 0) + slot.ends - slot.begins
    assert taught and all(minutes == catalogue.lab(lab).minutes for lab, minutes in taught.items())
    assert not want or set(taught) <= {lab.id for lab in syllabus.leads_to(want)}
    for one, other in itertools.pairwise(slots):
        if other.what == f"{one.what} (goes on)":
            assert one.ends - one.begins >= 20, "nothing new in the last minutes before a break"


def test_what_a_break_would_cut_after_minutes_begins_after_it():
    """Blocks of 90 min. After 30 min for day 0 and a lab of 45, there are 15 left, and 20 in the afternoon."""
    labs = list(catalogue.labs().values())

    def placed(*minutes):
        some = [dataclasses.replace(lab, day=1, minutes=many) for lab, many in zip(labs, minutes, strict=False)]
        blocks = [(1, 9 * 60, 90), (1, 11 * 60, 90)]
        slots = syllabus._placed(some, blocks, False)
        return slots and [(slot.begins, slot.ends, slot.what == syllabus.OWN) for slot in slots[1:]]

    assert placed(45, 60) == [(570, 615, False), (615, 630, True), (660, 720, False), (720, 750, True)]
    assert placed(40, 60) == [(570, 610, False), (610, 630, False), (660, 700, False), (700, 750, True)], "20 min are enough"
    assert placed(45, 15) == [(570, 615, False), (615, 630, False), (660, 750, True)], "all of it fits"
    assert placed(45, 20) == [(570, 615, False), (615, 635, False), (660, 750, True)], "the break begins 5 min late"
    assert placed(45, 96) is None and placed(45, 95) == [(570, 615, False), (615, 630, True), (660, 755, False)]


def test_a_course_with_more_time_than_labs_says_so():
    assert "These labs take 6 h 30 min of 26 h: a shorter course has room" in str(syllabus.syllabus("4", "the largest model"))
    assert "shorter course" not in str(syllabus.syllabus("4")) + str(syllabus.syllabus("1", "the largest model"))


def test_four_days_have_all_labs_on_their_days():
    days = {lab.id: slot.day for slot in syllabus.timetable("4") if (lab := lab_of(slot))}
    assert days == {lab.id: lab.day for lab in catalogue.labs().values()}


def test_the_most_important_labs_are_chosen():
    labs = list(catalogue.labs().values())
    some = syllabus.chosen(200, labs)
    assert 100 < syllabus.minutes(some) <= 200 and {lab.id for lab in some} >= {"gpu", "amp"}
    assert syllabus.chosen(10**6, labs) == labs and not syllabus.chosen(1, labs)


def test_several_labs_lead_to_what_one_wants():
    assert all(sum(want in lab.serves for lab in catalogue.labs().values()) >= 4 for want in WANTS)
    assert [lab.id for lab in syllabus.leads_to("the largest model")][:2] == ["gpu", "amp"], "with what they need"


def test_the_map_says_what_comes_next(here, capsys):
    said = str(syllabus.course())
    assert "Next: From the CPU to one GPU (gpu, 30 min)" in said and "0 solved" in said
    assert cli.main(["solve", "gpu", "--yes"]) == 0
    events.add(here, "check", "amp", outcome="wrong")
    view = syllabus.course()
    assert "1 solved" in str(view) and "wrong, next" in str(view)
    line = next(line for line in str(view).splitlines() if line.startswith("the largest model: "))
    ways = [lab for lab in syllabus.leads_to("the largest model") if lab.id != "gpu"]
    assert line == f"the largest model: {' → '.join(lab.id for lab in ways)} ({syllabus.long(ways)} to go)"
    assert '<a href="day1_2_amp.ipynb"' in view.page
    capsys.readouterr()


def test_in_a_shell(tmp_path, capsys):
    assert cli.main(["syllabus", "half"]) == 0 and "09:30 to 10:00  gpu" in capsys.readouterr().out
    assert cli.main(["syllabus", "2", "--html", str(tmp_path / "2.html")]) == 0 and "day 2" in (tmp_path / "2.html").read_text()
    typed_as = {"Half": "Half a day", "0.5": "Half a day", "one": "One day", "Two": "2 days", "four": "4 days", 2: "2 days"}
    for typed, said in typed_as.items():
        assert str(syllabus.syllabus(typed)).startswith(f"{said}: "), typed
    for typed in ("3", "three"):
        assert cli.main(["syllabus", typed]) == 2 and "choose half, 1, 2, 4" in capsys.readouterr().err
    with pytest.raises(UsageError, match="nothing that labs lead to"):
        syllabus.leads_to("gold")
