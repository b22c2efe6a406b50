"""A wrong switch is refused when it is submitted; a script whose parser its source does not tell is left to speak for itself."""

import pytest

from dlojz.jobs import script, switches
from dlojz.labs import workspace
from dlojz.system.errors import UsageError

PLAIN = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--amp', choices=['off', 'bf16'])\n"
LEFT_ALONE = {
    "made elsewhere": "from lib import parser\nparser.add_argument('--amp')\n",
    "given away": PLAIN + "import lib\nlib.add_more(parser)\nparser.parse_args()\n",
    "returned": "import argparse\ndef get():\n    p = argparse.ArgumentParser()\n    p.add_argument('--amp')\n    return p\n",
    "in a loop": PLAIN + "for name in ('a', 'b'):\n    parser.add_argument('--' + name)\n",
    "known arguments only": PLAIN + "parser.parse_known_args()\n",
    "commands of its own": PLAIN + "parser.add_subparsers()\n",
    "two parsers": PLAIN + "other = argparse.ArgumentParser()\n",
    "a name that is reckoned": PLAIN + "import os\nparser.add_argument(os.environ['X'])\n",
    "words of its own": PLAIN + "more = {}\nparser.add_argument('--x', **more)\n",
    "not argparse": "from transformers import HfArgumentParser\nparser = HfArgumentParser()\nparser.parse_args()\n",
    "one called as argparse's": "from configargparse import ArgumentParser\nparser = ArgumentParser()\nparser.parse_args()\n",
    "one that has more": "import lib\nparser = lib.Parser()\nparser.add_argument('--amp')\nparser.parse_args()\n",
    "words taken before": PLAIN + "import sys\nif '--fast' in sys.argv:\n    sys.argv.remove('--fast')\nparser.parse_args()\n",
    "no argparse": "import sys\nprint(sys.argv)\n",
    "no Python": "parser = (\n",
    "nonsense": PLAIN + "parser.add_argument('--x', nargs='%')\n",
}


@pytest.fixture
def refused(tmp_path):
    workspace.create(tmp_path)

    def refused(command):
        try:
            script.checked_command(command, tmp_path)
        except UsageError as error:
            return str(error)
        return ""
    return refused


@pytest.mark.parametrize("command, said", [
    ("train.py --ampp bf16", "unrecognized arguments: --ampp bf16: did you mean '--amp'? `python train.py --help` lists"),
    ("train.py --am bf16", "unrecognized arguments: --am bf16"),  # it takes no abbreviations
    ("train.py --amp bf17", "argument --amp: there is no 'bf17': did you mean 'bf16'?"),
    ("train.py --augment cutmx", "did you mean 'cutmix'?"),  # named in augment.py
    ("train.py --batch-size many", "invalid int value: 'many'"),
    ("train.py --lr", "argument --lr: expected one argument"),
    ("train.py bf16", "there is no place for bf16"),
    ("train.py --test -b 8 --amp=bf16 --no-pin-memory --pin-memory --compile --lr 1e-2", ""),
    ("train.py --compile reduce-overhead --help", ""),
])
def test_of_the_courses_script(refused, command, said):
    assert said in refused(command) if said else refused(command) == ""


@pytest.mark.parametrize("first, made", [("import argparse as a", "a.ArgumentParser()"),
                                         ("import argparse", "argparse.ArgumentParser()"),
                                         ("from argparse import ArgumentParser as P", "P()")])
def test_however_argparse_is_imported(tmp_path, refused, first, made):
    (tmp_path / "own.py").write_text(f"{first}\nparser = {made}\nparser.add_argument('--amp')\nparser.parse_args()\n")
    assert refused("own.py --amp 3") == "" and "--aamp" in refused("own.py --aamp 3")


def test_the_other_scripts_of_the_course(refused):
    assert refused("heads.py --heads 2") == "" and "--heds" in refused("heads.py --heds 2")


def test_of_a_script_of_ones_own(tmp_path, refused):
    (tmp_path / "own.py").write_text(PLAIN + "group = parser.add_argument_group()\ngroup.add_argument('data')\n"
                                     "group.add_argument('--epochs', '-n', type=float)\nprint(parser.parse_args())\n")
    assert "arguments are required: data" in refused("own.py --amp bf16")
    assert "argument --amp: there is no 'fp8'" in refused("own.py images --amp fp8")
    assert refused("own.py images --am bf16 -n3") == ""  # argparse takes abbreviations where it is not told otherwise


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_what_cannot_be_known_is_not_refused(tmp_path, text):
    (tmp_path / "own.py").write_text(text)
    switches.refuse(["--unheard-of", "3"], [tmp_path / "own.py"])
    (tmp_path / "own.py").write_text(PLAIN)
    with pytest.raises(UsageError):  # so that it is for these lines
        switches.refuse(["--unheard-of", "3"], [tmp_path / "own.py"])
