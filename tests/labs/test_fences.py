"""Fences in texts: found, replaced, refused; what is not edited stays as it was, to the last byte."""

import codecs
import os
import stat

import pytest

from dlojz.labs import catalogue, fences
from dlojz.system import textfile
from dlojz.system.errors import UsageError

TEXT = """import torch


def train():
    a = 1
    # >>> amp.forward: half precision
    with torch.autocast("cpu"):
        a = 2

        a = 3
    # <<< amp.forward
    for b in range(3):
        # >>> gpu: to the device
        b = b + 1
        # <<< gpu
    return a
"""


def problem(text, fence="amp.forward", **options):
    with pytest.raises(fences.FenceError) as raised:
        fences.find(text, "train.py", **options)[fence]
    assert "\n" not in str(raised.value)
    return raised.value.line, str(raised.value)


def test_finds_fences_with_their_lines_titles_and_bodies():
    found = fences.find(TEXT).fences
    assert list(found) == ["amp.forward", "gpu"]
    one, other = found.values()
    assert (one.title, one.first, one.last, one.indent) == ("half precision", 6, 11, "    ")
    assert one.body == 'with torch.autocast("cpu"):\n    a = 2\n\n    a = 3\n'
    assert other.body == "b = b + 1\n"


def test_a_replacement_takes_the_indentation_and_touches_nothing_else():
    new = fences.replace(TEXT, {"gpu": "if b:\n    b = 2\n\nb = 3\n"})
    assert new == TEXT.replace("        b = b + 1\n", "        if b:\n            b = 2\n\n        b = 3\n")
    assert fences.replace(new, {"gpu": "b = b + 1\n"}) == TEXT


def test_several_replacements_at_once_and_empty_bodies():
    new = fences.replace(TEXT, {"gpu": "", "amp.forward": "pass\n"})
    assert "b = b + 1" not in new and "    # >>> amp.forward: half precision\n    pass\n    # <<< amp.forward\n" in new
    assert [fence.body for fence in fences.find(new).fences.values()] == ["pass\n", ""]


def test_every_fence_of_the_reference_comes_back_from_its_stub():
    for name in ("train.py",):
        reference = catalogue.reference(name).read_text()
        stubbed = catalogue.laid_out(name)
        assert stubbed != reference
        assert fences.replace(stubbed, catalogue.reference_fences(name)) == reference


@pytest.mark.parametrize("spelling", ["#>>> gpu: to it", "#  >>> gpu", "# >>> gpu : x", "#\t>>>\tgpu:", "# >>> gpu: a: b  "])
def test_a_comment_retyped_by_hand_is_still_a_fence(spelling):
    assert fences.find(TEXT.replace("# >>> gpu: to the device", spelling)).fences["gpu"].body == "b = b + 1\n"


@pytest.mark.parametrize("comment", ["# >>> print(x)", "# >>> a b", "x = 1  # >>> gpu", '# ">>> gpu"', "# >>>"])
def test_other_comments_are_no_fences(comment):
    assert list(fences.find(TEXT + comment + "\n").fences) == ["amp.forward", "gpu"]


def test_only_known_ids_count_where_they_are_given():
    text = TEXT.replace("    return a\n", "    # >>> my.notes: to do\n    return a\n")
    assert "my.notes" in fences.find(text).problems
    assert fences.find(text, known={"gpu", "amp.forward"}).problems == {}


# --- what may be wrong ---------------------------------------------------------------------------------------------------


def test_a_removed_fence():
    line, said = problem(TEXT.replace("    # >>> amp.forward: half precision\n", "").replace("    # <<< amp.forward\n", ""))
    assert line is None and "gone" in said and "# <<< amp.forward" in said


def test_a_removed_beginning_names_the_end_and_the_other_way_round():
    line, said = problem(TEXT.replace("    # >>> amp.forward: half precision\n", ""))
    assert line == 10 and "train.py, line 10" in said and "begins nowhere" in said
    line, said = problem(TEXT.replace("    # <<< amp.forward\n", ""))
    assert line == 6 and "ends nowhere" in said


def test_a_doubled_fence_names_both_lines():
    line, said = problem(TEXT.replace("    for b", "    # >>> amp.forward: half precision\n    # <<< amp.forward\n    for b"))
    assert line == 12 and "twice" in said and "line 6" in said


def test_an_end_before_its_beginning():
    text = TEXT.replace("# >>> amp.forward: half precision", "# <<<X").replace("# <<< amp.forward", "# >>> amp.forward: x")
    line, said = problem(text.replace("# <<<X", "# <<< amp.forward"))
    assert line == 6 and "line 11" in said


def test_a_nested_fence_stops_the_outer_one_only():
    text = TEXT.replace("        a = 3\n", "        # >>> syncbn: x\n        a = 3\n        # <<< syncbn\n")
    line, said = problem(text)
    assert line == 10 and "the fence syncbn stands inside the fence amp.forward (lines 6 to 13)" in said
    assert fences.find(text)["syncbn"].body == "a = 3\n"


def test_crossed_fences_stop_both():
    text = TEXT.replace("    a = 1\n", "    # >>> syncbn: x\n    a = 1\n")
    text = text.replace("        a = 3\n", "        a = 3\n    # <<< syncbn\n")
    assert problem(text)[0] == 12 and "crosses" in problem(text)[1]
    assert problem(text, "syncbn")[0] == 7 and "crosses" in problem(text, "syncbn")[1]


def test_a_broken_fence_leaves_the_others_usable():
    text = TEXT.replace("    # <<< amp.forward\n", "")
    assert fences.find(text)["gpu"].body == "b = b + 1\n"
    assert "b = 7" in fences.replace(text, {"gpu": "b = 7\n"})


def test_a_replacement_in_a_broken_fence_is_refused():
    with pytest.raises(fences.FenceError, match="line 6"):
        fences.replace(TEXT.replace("    # <<< amp.forward\n", ""), {"amp.forward": "pass\n"})


def test_a_file_of_the_kit_may_have_no_broken_fence():
    with pytest.raises(fences.FenceError, match=r"x.py, line 6"):
        fences.all_of(TEXT.replace("    # <<< amp.forward\n", ""), "x.py")


# --- line ends, tabs, encodings ------------------------------------------------------------------------------------------


def test_windows_line_ends_stay_and_new_lines_have_them():
    windows = TEXT.replace("\n", "\r\n")
    assert fences.find(windows).fences["amp.forward"].body == fences.find(TEXT).fences["amp.forward"].body
    wanted = TEXT.replace("b = b + 1\n", "b = 1\n        b = 2\n").replace("\n", "\r\n")
    assert fences.replace(windows, {"gpu": "b = 1\nb = 2\n"}) == wanted


def test_mixed_line_ends_stay_as_they_are():
    mixed = TEXT.replace("    a = 1\n", "    a = 1\r\n").replace("import torch\n", "import torch\r")
    new = fences.replace(mixed, {"gpu": "b = 5\n"})
    assert new == mixed.replace("b = b + 1", "b = 5")


def test_tabs_in_place_of_spaces():
    tabs = TEXT.replace("    ", "\t")
    new = fences.replace(tabs, {"gpu": "if b:\n    b = 2\n"})
    assert "\t\tif b:\n\t\t\tb = 2\n" in new
    compile(new, "train.py", "exec")
    assert fences.same(fences.find(tabs).fences["amp.forward"].body, fences.find(TEXT).fences["amp.forward"].body)


def test_form_feeds_and_unicode_separators_are_no_line_ends():
    odd = TEXT.replace("a = 1", 'a = "\x0c\u2028\x85\x1c"')
    assert fences.find(odd).fences["gpu"].first == fences.find(TEXT).fences["gpu"].first
    assert fences.replace(odd, {"gpu": "b = b + 1\n"}) == odd


def test_a_file_without_a_last_line_end():
    text = "# >>> gpu: x\na = 1\n# <<< gpu"
    assert fences.replace(text, {"gpu": "a = 2\n"}) == "# >>> gpu: x\na = 2\n# <<< gpu"


def test_the_very_characters_of_a_fence_can_be_carried_to_another_text():
    odd = TEXT.replace("        b = b + 1\n", "        b  =  b+1   \r\n\t# odd\n      \n")
    carried = fences.replace(TEXT, {"gpu": fences.find(odd)["gpu"]})
    assert carried == odd


RAW = {
    "utf-8": ("# ünï → ∑\n" + TEXT).encode(),
    "a byte order mark": codecs.BOM_UTF8 + TEXT.encode(),
    "latin-1, declared": ("# -*- coding: latin-1 -*-\n# élève\n" + TEXT).encode("latin-1"),
    "latin-1, not declared": ("# élève\n" + TEXT).encode("latin-1"),
    "cp1252, declared in the second line": ("#!/usr/bin/env python\n# coding: cp1252\n# \u20ac\n" + TEXT).encode("cp1252"),
    "an encoding that isn't there": ("# coding: nowhere\n" + TEXT).encode(),
    "a null byte": TEXT.encode() + b"\0\n",
    "windows": TEXT.replace("\n", "\r\n").encode(),
    "shift_jis": ("# coding: shift_jis\n# \u65e5\u672c\n" + TEXT).encode("shift_jis"),
}


@pytest.mark.parametrize("raw", RAW.values(), ids=RAW.keys())
def test_an_edit_leaves_every_byte_outside_the_fence(tmp_path, raw):
    path = tmp_path / "train.py"
    path.write_bytes(raw)
    file = textfile.read(path)
    file.write(fences.replace(file.text, {"gpu": "b = 42\n"}))
    assert path.read_bytes() == raw.replace(b"b = b + 1", b"b = 42")


def test_utf_16_is_refused_in_one_line(tmp_path):
    path = tmp_path / "train.py"
    path.write_bytes(TEXT.encode("utf-16"))
    with pytest.raises(UsageError, match=r"UTF-16.*save it as UTF-8"):
        textfile.read(path)


def test_a_letter_that_the_encoding_lacks_is_refused_and_nothing_changed(tmp_path):
    path = tmp_path / "train.py"
    path.write_bytes(RAW["latin-1, declared"])
    file = textfile.read(path)
    with pytest.raises(UsageError, match=r"iso-8859-1.*'→'"):
        file.write(fences.replace(file.text, {"gpu": "b = '→'\n"}))
    assert path.read_bytes() == RAW["latin-1, declared"]


def test_writing_keeps_permissions_and_follows_links(tmp_path):
    real = tmp_path / "real.py"
    real.write_text(TEXT)
    real.chmod(0o640)
    link = tmp_path / "train.py"
    link.symlink_to(real)
    textfile.read(link).write("x = 1\n")
    assert link.is_symlink() and real.read_text() == "x = 1\n" and stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["real.py", "train.py"]


# --- what counts as not attempted ----------------------------------------------------------------------------------------

STUB = '# TODO: write it\nmodel = net\nif args.x:\n    todo("gpu")\n'


@pytest.mark.parametrize("body", [
    STUB,
    'model = net\nif args.x:\n    todo("gpu")',
    '# my notes\n\nmodel   =   net  # here?\n\n\nif args.x:\n        todo("gpu")\n',
    STUB.replace("\n", "\r\n"),
    'model = net\nif args.x:\n\ttodo("gpu")\n',
])
def test_blanks_and_comments_do_not_make_an_attempt(body):
    assert fences.same(STUB, body)


@pytest.mark.parametrize("body", [
    "", "model = net\n", STUB + "x = 1\n", STUB.replace("net", "net2"), STUB + "(",
    'model = net\nif args.x:\n    pass\ntodo("gpu")\n',
    "model = net if args.x: todo(\"gpu\")\n",
])
def test_anything_else_does(body):
    assert not fences.same(STUB, body)


def test_lines_that_are_not_one_expression_are_not_the_same():
    assert not fences.same("a\n-b\n", "a - b\n")


@pytest.mark.parametrize("text, line", [
    ("a\n# >>> x\n1\n# <<< x\nb\n", None), ("a\n# >>> x\n1\n2\n# <<< x\nnew\nb\n", 6), ("new\n# >>> x\n# <<< x\nb\n", 1),
    ("a\n# >>> x\n# <<< x\n", 3), ("a\n# >>> x\n1\n# <<< x\nb\nc\n", 6)])
def test_the_first_line_that_was_changed_outside_of_fences(text, line):
    assert fences.first_change(text, "a\n# >>> x\nstub\nof two lines\n# <<< x\nb\n") == line


def test_broken_code_is_the_same_as_itself():
    assert fences.same("if (:\n  # x\n", "if  (:\n\n")
