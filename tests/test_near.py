"""“Did you mean”: what is near is offered, what is merely the least unlike is not."""

import argparse

import pytest

from dlojz import cli
from dlojz.labs import catalogue
from dlojz.system import suggest
from dlojz.system.arguments import Parser

LABS = ("gpu", "amp", "channels_last", "profiler", "profiler_hunt", "dataloader", "ddp", "ddp_hunt", "ddp_advanced",
        "augmentation")


@pytest.mark.parametrize("name, meant", [
    ("apm", "amp"), ("am", "amp"), ("AMP", "amp"), ("amp2", "amp"), ("chanels", "channels_last"), ("chan", "channels_last"),
    ("channels-last", "channels_last"), ("profile", "profiler"), ("loader", "dataloader"), ("augment", "augmentation"),
    ("aug", "augmentation"), ("advanced", "ddp_advanced")])
def test_a_slip_or_a_beginning(name, meant):
    assert suggest.names(name, LABS) == [meant] and suggest.hint(name, LABS) == f"did you mean {meant!r}? "


@pytest.mark.parametrize("name", [
    "optimiser", "zzz", "fsdp", "attention", "training", "scheduler", "compile", "checkpoint", "tp", "random", "", "a", None, 3])
def test_what_is_far_off_is_not_guessed(name):
    assert suggest.names(name, LABS) == [] and suggest.hint(name, LABS) == ""


def test_several_are_in_order_of_nearness():
    assert suggest.hint("amp", ["gpu", "amp-long-name", "amp1"], 3) == "did you mean 'amp1' or 'amp-long-name'? "


def test_the_help_of_each_verb_says_what_it_does():
    def verbs(parser):
        return {name: verb for action in parser._actions if isinstance(action, argparse._SubParsersAction)
                for name, verb in action.choices.items()}

    found = verbs(cli.parser())
    for name, verb in {**found, **verbs(found["lab"]), **verbs(found["reference"])}.items():
        assert verb.description and verb.description[0].isupper(), name
    assert found["hint"].format_help().splitlines()[2] == "The next of a lab's three hints."


@pytest.mark.parametrize("command, said", [
    ("chek gpu", "dlojz: argument VERB: there is no 'chek': did you mean 'check'? Choose from workspace, edit, "),
    ("zzz", "dlojz: argument VERB: there is no 'zzz': Choose from workspace, edit, "),
    ("hint --stp 1 gpu", "dlojz hint: unrecognized arguments: --stp gpu: did you mean '--step'? See dlojz hint --help\n"),
    ("sites --zzz", "dlojz sites: unrecognized arguments: --zzz; see dlojz sites --help\n"),
    ("submit --nme x -- train.py", "dlojz submit: unrecognized arguments: --nme: did you mean '--name'? See dlojz submit --help"),
    ("submit --bath-size 3 -- train.py", "dlojz submit: unrecognized arguments: --bath-size; what is for the script comes after "
                                         "--: dlojz submit [OPTIONS] -- train.py ARGS; see dlojz submit --help\n"),
    ("hint gpu amp", "dlojz hint: there is no place for amp; see dlojz hint --help\n"),
    ("hint", "dlojz hint: the following arguments are required: LAB; see dlojz hint --help\n")])
def test_a_verbs_arguments(capsys, command, said):
    with pytest.raises(SystemExit) as ended:
        cli.main(command.split())
    complaint = capsys.readouterr().err
    assert ended.value.code == 2 and complaint.startswith(said) and complaint.count("\n") == 1


@pytest.mark.parametrize("arguments, said", [
    ("--bath-size 3", "unrecognized arguments: --bath-size 3: did you mean '--batch-size'? See train.py --help\n"),
    ("--zzz=3", "unrecognized arguments: --zzz=3; see train.py --help\n"),
    ("--optimizer adm", "argument --optimizer: there is no 'adm': did you mean 'adamw'? Choose from sgd, adamw; see ")])
def test_a_scripts_switches(capsys, arguments, said):
    parser = Parser(prog="train.py", allow_abbrev=False)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--optimizer", choices=["sgd", "adamw"])
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(arguments.split())
    assert ended.value.code == 2 and capsys.readouterr().err.startswith(f"train.py: {said}")


def test_the_labs_here_are_those_of_the_course():
    assert set(LABS) <= set(catalogue.labs())
