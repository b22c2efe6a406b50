"""``dlojz …``: the notebook's verbs in a shell.

Each verb is a parser below and a function that imports what it needs, so that ``dlojz --help`` stays quick.
"""

from __future__ import annotations

import argparse
import sys

from . import __version__
from .system.arguments import Parser
from .system.errors import UsageError
from .system.shown import say


class Verb(Parser):
    """A verb's arguments: it says itself which of them it doesn't know, for the parser above knows only its own."""

    def parse_known_args(self, args=None, namespace=None):
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.refuse(unknown)
        return found, unknown


class Verbs(argparse._SubParsersAction):
    """What the list of verbs says of a verb, its own ``--help`` says too, where it has no more to say."""

    def add_parser(self, name, *, help, **more):
        return super().add_parser(name, help=help, **{"description": f"{help[0].upper()}{help[1:]}."} | more)


def parser() -> Parser:
    description = "Make one PyTorch training script fast, then scale it to many GPUs."
    top = Parser(prog="dlojz", description=description)
    top.add_argument("--version", action="version", version=f"dlojz {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Verb, action=Verbs)

    verb = verbs.add_parser("workspace", help="make a folder to work in: notebooks, the scripts to edit, runs/")
    verb.add_argument("folder", nargs="?", metavar="DIR", help="left out, the workspace that you are in")
    verb.add_argument("--update", action="store_true", help="bring what the kit has changed since; what you wrote stays")
    verb.add_argument("--solved", metavar="LAB[,LAB…]|all", default="", help="labs whose fences hold the solution")
    verb.set_defaults(run=workspace)

    verb = verbs.add_parser("edit", help="where to write: the files and lines of a lab's fences")
    verb.add_argument("lab", metavar="LAB", help="a lab (amp), or one of its fences (amp.forward)")
    verb.set_defaults(run=edit)

    verb = verbs.add_parser("check", help="check a lab; exit code 0: solved, 1: wrong, 2: cannot check, 3: not attempted")
    verb.add_argument("labs", nargs="+", metavar="LAB", help="several: the exit code is the first of 2, 1, 3, 0 that occurs")
    verb.set_defaults(run=check)

    verb = verbs.add_parser("hint", help="the next of a lab's three hints")
    verb.add_argument("lab", metavar="LAB")
    verb.add_argument("--step", type=int, metavar="N", help="one that was shown already, again")
    verb.set_defaults(run=hint)

    verb = verbs.add_parser("diff", help="a lab's fences: yours next to the kit's")
    verb.add_argument("lab", metavar="LAB", help="a lab (amp), or one of its fences (amp.forward)")
    verb.set_defaults(run=diff)

    verb = verbs.add_parser("solve", help="put the kit's solution into a lab's fences; what you wrote there is kept")
    verb.add_argument("lab", metavar="LAB", help="a lab (amp), or one of its fences (amp.forward)")
    verb.add_argument("-y", "--yes", action="store_true", help="do not ask first")
    verb.set_defaults(run=solve)

    verb = verbs.add_parser("reset", help="restore a lab's fences to their first state; a copy of what you wrote is kept")
    verb.add_argument("lab", metavar="LAB", help="a lab (amp), or one of its fences (amp.forward)")
    verb.add_argument("--file", action="store_true", help="recreate its whole file, keeping the readable fences")
    verb.set_defaults(run=reset)

    verb = verbs.add_parser("catch-up", aliases=["catch_up"], help="solve what comes before a lab, so that it can be done")
    verb.add_argument("lab", metavar="LAB")
    verb.set_defaults(run=catch_up)

    verb = verbs.add_parser("quiz", help="a lab's questions; with a question and an answer, answer it")
    verb.add_argument("lab", metavar="LAB")
    verb.add_argument("question", nargs="?", default="", metavar="QUESTION", help="its name, as the quiz shows it: [range]")
    verb.add_argument("answer", nargs="*", metavar="ANSWER", help="a letter, several letters, or a number")
    verb.set_defaults(run=quiz)

    verb = verbs.add_parser("predict", help="what you expect a lab's run to bring, before you measure it")
    verb.add_argument("lab", metavar="LAB")
    verb.add_argument("value", nargs="?", metavar="VALUE", help="a number: 2.5; left out, the question is shown")
    verb.set_defaults(run=predict)

    verb = verbs.add_parser("progress", help="your progress in each lab")
    verb.set_defaults(run=progress)

    verb = verbs.add_parser("lab", help="for authors: make the files of a lab, bring them up to date, prove them")
    does = verb.add_subparsers(dest="does", metavar="new|sync|test|course|facts", required=True, parser_class=Verb, action=Verbs)
    what = does.add_parser("new", help="the files of a new lab, and its notebook")
    what.add_argument("lab", metavar="ID", help="its fences are in files of dlojz/reference, unless one of these is given:")
    form = what.add_mutually_exclusive_group()
    form.add_argument("--function", dest="form", action="store_const", const="function", default="",
                      help="a function to fill in, in a file dlojz/reference/ID.py")
    form.add_argument("--script", dest="form", action="store_const", const="script",
                      help="a script of its own, dlojz/reference/ID.py")
    what.set_defaults(run=lab_new)
    what = does.add_parser("sync", help="what lab.toml and the reference say, into notebook and README: name, head, fences, row")
    what.add_argument("labs", nargs="*", metavar="ID", help="left out, all labs")
    what.set_defaults(run=lab_sync)
    what = does.add_parser("test", help="what is missing or wrong in a lab: exit code 0: nothing, 1: something, 2: cannot tell")
    what.add_argument("lab", metavar="ID")
    what.add_argument("--only", action="append", choices=["files", "check", "notebook"], metavar="PART",
                      help="files, check or notebook; may be given twice (default: all three)")
    what.add_argument("--answer", default="", metavar="WORDS",
                      help="check only the answers with these words in their first line, and show what it says of each")
    what.set_defaults(run=lab_test)
    what = does.add_parser("course", help="prove the whole course, or some labs: a table of checks, answers and notebooks")
    what.add_argument("labs", nargs="*", metavar="DAY|LAB", help="left out, day 0 and all labs")
    what.add_argument("--only", action="append", choices=["check", "notebook"], metavar="PART", help="check or notebook")
    what.add_argument("--site", default="laptop", metavar="S", help="where the notebooks' jobs run (this machine's own queue)")
    what.add_argument("--within", metavar="DIR", help="make the workspaces here: for a cluster a folder that its nodes see")
    what.set_defaults(run=lab_course)
    what = does.add_parser("facts", help="what a check can compare in two runs: kinds of facts, and their keys")
    what.add_argument("kinds", nargs="*", metavar="KIND", help="loss, update, …; left out, all kinds")
    what.set_defaults(run=lab_facts)

    verb = verbs.add_parser("course", help="a workspace with a measured baseline, then JupyterLab")
    verb.add_argument("folder", nargs="?", metavar="DIR", help="left out, the workspace that you are in")
    verb.add_argument("--again", action="store_true", help="measure the baseline again, if there is one")
    verb.set_defaults(run=course)

    verb = verbs.add_parser("report", help="what runs measured and how they compare, as text or as a page with figures",
                            description="What runs measured and how they compare. Exit code 1 where one of them has failed.")
    verb.add_argument("jobs", nargs="+", metavar="JOB", help="a run (amp-002), a name for its latest run (amp), or its folder")
    verb.add_argument("--against", metavar="JOB", help="the run to compare with")
    verb.add_argument("--html", metavar="FILE", help="write one HTML file, which opens offline, instead of text")
    verb.set_defaults(run=report)

    verb = verbs.add_parser("audit", usage="dlojz audit [OPTIONS] SCRIPT.py [ARGS]",
                            help="run any training script for a few steps: which techniques it uses, lacks, has got wrong",
                            description="Run any PyTorch training script, unchanged, for a few steps, and say of each technique "
                                        "of the course: used, not used, used wrongly, not applicable, could not be seen. "
                                        "Exit code 0: nothing is used wrongly, 1: something is, 2: the script could not be run.")
    verb.add_argument("--updates", type=int, default=12, metavar="N", help="stop after N updates of weights (default: 12)")
    verb.add_argument("--seconds", type=float, default=100.0, metavar="S", help="stop after S seconds (default: 100)")
    verb.add_argument("--ranks", type=int, default=1, metavar="N", help="so many processes, as torchrun would start them")
    verb.add_argument("--pretend", action="store_true", help="the CPU plays a GPU for each process, on a machine without")
    verb.add_argument("--json", action="store_true", help="all findings, for programs")
    verb.add_argument("--html", metavar="FILE", help="write them as a page instead")
    verb.add_argument("command", nargs=argparse.REMAINDER, metavar="SCRIPT.py [ARGS]", help="the script, and what is for it")
    verb.set_defaults(run=audit)

    verb = verbs.add_parser("trace", usage="dlojz trace [OPTIONS] SCRIPT.py [ARGS]",
                            help="profile some updates of any training script, from outside, and say why it is not faster",
                            description="Run a script as it is until a trace of some of its updates is written, then show the "
                                        "diagnosis. As a job: dlojz submit -- dlojz trace SCRIPT.py")
    verb.add_argument("--updates", type=int, default=5, metavar="N", help="how many updates are traced (default: 5)")
    verb.add_argument("--skip", type=int, default=8, metavar="N", help="how many come before them (default: 8)")
    verb.add_argument("--ranks", type=int, default=1, metavar="N", help="so many processes, of which rank 0 is traced")
    verb.add_argument("command", nargs=argparse.REMAINDER, metavar="SCRIPT.py [ARGS]", help="the script, and what is for it")
    verb.set_defaults(run=trace)

    verb = verbs.add_parser("doctor", help="look at this machine, its software and its surroundings: what is broken, what to do")
    verb.add_argument("--json", action="store_true", help="all findings with their numbers, for programs")
    verb.add_argument("--warm", action="store_true", help="let torch.compile do its slow first use now (a minute or so)")
    verb.set_defaults(run=doctor)

    verb = verbs.add_parser("submit", usage="dlojz submit [OPTIONS] -- train.py ARGS", help="queue a training script as a job",
                            description="Queue a training script as a job and return at once. The same again finds the same job.")
    verb.add_argument("--name", help="what to call the run (default: the script's name)")
    verb.add_argument("--gpus", type=int, metavar="N", help="GPUs in all, one process each (default: the site's)")
    verb.add_argument("--nodes", type=int, metavar="N", help="nodes to spread them over")
    verb.add_argument("--processes", type=int, metavar="N", help="processes in all, where no GPUs are asked for")
    verb.add_argument("--cores", type=int, metavar="N", help="CPU cores for each process")
    verb.add_argument("--time", metavar="T", help="time limit: minutes, or H:MM:SS, or D-HH:MM:SS")
    verb.add_argument("--site", metavar="S", help="a machine or cluster of `dlojz sites`, or a .toml file")
    for word in ("account", "partition", "qos", "constraint"):
        verb.add_argument(f"--{word}", default="", help=f"Slurm's {word}")
    verb.add_argument("--dry-run", action="store_true", help="print the job script with each line explained, and queue nothing")
    verb.add_argument("--wait", action="store_true", help="return when the job has ended: with exit code 1 if it failed")
    verb.add_argument("--again", action="store_true", help="start a new run even if the same one exists")
    verb.add_argument("command", nargs=argparse.REMAINDER, metavar="-- train.py ARGS")
    verb.advice = "what is for the script comes after --: dlojz submit [OPTIONS] -- train.py ARGS"
    verb.set_defaults(run=submit)

    verb = verbs.add_parser("jobs", help="the runs of this workspace and their states")
    verb.add_argument("--all", action="store_true", help="the early ones, too")
    verb.set_defaults(run=jobs)

    verb = verbs.add_parser("log", help="a run's output")
    verb.add_argument("job", metavar="JOB", help="a run (amp-002), or a name for its latest run (amp)")
    verb.add_argument("-f", "--follow", action="store_true", help="follow until the run ends")
    verb.add_argument("--err", action="store_true", help="its error output instead")
    verb.set_defaults(run=log)

    verb = verbs.add_parser("cancel", help="stop jobs, waiting or running")
    verb.add_argument("jobs", nargs="+", metavar="JOB")
    verb.set_defaults(run=cancel)

    verb = verbs.add_parser("hub", help="set a JupyterHub up: the kernel, a workspace at the first login, limits",
                            description="With the configuration of a JupyterHub: its users get the course's kernel, a workspace "
                                        "at their first login, and limits. Without: your own account gets kernel and workspace.")
    verb.add_argument("config", nargs="?", default="", metavar="CONFIG", help="such as /etc/jupyterhub/jupyterhub_config.py")
    verb.add_argument("--cores", type=float, default=1, metavar="N", help="for each user's server (default: 1)")
    verb.add_argument("--memory", type=float, default=5, metavar="GB", help="for each user's server (default: 5)")
    verb.add_argument("--group", default="", metavar="NAME", help="a workspace only for members of this Unix group")
    verb.add_argument("--site", default="", metavar="S", help="where jobs run: one of `dlojz sites`, or a .toml file")
    verb.add_argument("--remove", action="store_true", help="take it out of the configuration again")
    verb.set_defaults(run=hub)

    verb = verbs.add_parser("launch", help="for instructors: submit every run of a day's notebooks, and follow them",
                            description="Submit every run of a day's notebooks from a solved workspace, and follow them to their "
                                        "end. The same again starts only what is missing.")
    verb.add_argument("what", metavar="DAY|LAB", help="day1, or a lab: amp")
    verb.add_argument("--site", default="", metavar="S", help="a machine or cluster of `dlojz sites`, or a .toml file")
    verb.add_argument("--dry-run", action="store_true", help="list the runs and what they cost, and queue nothing")
    verb.set_defaults(run=launch)

    verb = verbs.add_parser("rehearse", help="for instructors: the evening before, what is not ready for a day")
    verb.add_argument("what", metavar="DAY|LAB", help="day1, or a lab: amp")
    verb.add_argument("--site", default="", metavar="S", help="a machine or cluster of `dlojz sites`, or a .toml file")
    verb.add_argument("--html", metavar="FILE", help="write what was found as a page, too")
    verb.add_argument("--no-runs", action="store_true", help="look only, and submit nothing")
    verb.set_defaults(run=rehearse)

    verb = verbs.add_parser("syllabus", help="for instructors: a course of half a day, one, two or four days, with a timetable")
    verb.add_argument("length", metavar="half|1|2|4", help="days, as digits or words")
    verb.add_argument("--want", default="", metavar="WORDS", help="labs that lead to it, such as \"the largest model\"")
    verb.add_argument("--html", metavar="FILE", help="write it as a page")
    verb.set_defaults(run=syllabus)

    verb = verbs.add_parser("cheatsheet", help="each method: what it brings in speed and memory, and when to use it")
    verb.add_argument("--html", metavar="FILE", help="write it as a page, which prints on two sheets")
    verb.set_defaults(run=cheatsheet)

    verb = verbs.add_parser("reference", help="for instructors: keep records of this workspace's runs, for `reference`")
    does = verb.add_subparsers(dest="does", metavar="save|list", required=True, parser_class=Verb, action=Verbs)
    what = does.add_parser("save", help="keep the records of runs that have completed, small, as CARD/NAME.jsonl")
    what.add_argument("names", nargs="*", metavar="NAME", help="names of runs, as in submit(…, name=\"amp\"); left out, all runs")
    what.add_argument("--into", default="", metavar="FOLDER",
                      help="left out: `references` of the site in use, in a checkout of the kit dlojz/recorded")
    what.set_defaults(run=reference_save)
    what = does.add_parser("list", help="the recorded runs: name, card, versions, date; and which ones the labs lack")
    what.set_defaults(run=reference_list)

    verb = verbs.add_parser("publish", help="publish how you are doing to the room of the course, under a pseudonym")
    verb.add_argument("name", nargs="?", metavar="PSEUDONYM", help="left out, say what would be published")
    verb.add_argument("--stop", action="store_true", help="publish nothing more, and remove what was")
    verb.set_defaults(run=publish)

    verb = verbs.add_parser("feedback", help="how hard a lab was for you: 1 too easy, 2 easy, 3 right, 4 hard, 5 too hard")
    verb.add_argument("lab", metavar="LAB")
    verb.add_argument("value", type=int, metavar="1-5")
    verb.set_defaults(run=feedback)

    verb = verbs.add_parser("room", help="for instructors: how those are doing who publish it")
    verb.add_argument("folder", nargs="?", default="", metavar="FOLDER", help="left out, the one that the site's file names")
    verb.add_argument("--html", metavar="FILE", help="write a page instead, which reloads itself, until Ctrl-C")
    verb.add_argument("--once", action="store_true", help="write the page once")
    verb.set_defaults(run=room)

    verb = verbs.add_parser("sites", help="the machines and clusters that are known, and which one is in use")
    verb.set_defaults(run=sites)

    return top


def hub(args) -> int:
    from . import hub

    if args.remove and not args.config:
        raise UsageError("say from which configuration: dlojz hub --remove CONFIG")
    done = hub.removed(args.config) if args.remove else \
        hub.for_all(args.config, args.cores, args.memory, args.group, args.site) if args.config else \
        hub.for_me(args.site)
    for line in done:
        say(line)
    return 0


def workspace(args) -> int:
    from pathlib import Path

    from .labs import workspace
    from .system.workspace import MARKER, find

    folder = Path(args.folder).expanduser().absolute() if args.folder else find()
    new = not (folder / MARKER).exists()
    try:
        said = workspace.create(folder, args.solved.split(","), args.update)
        said += workspace.own_queue_where_slurm_is_silent(folder) if new else []
    except workspace.Incomplete as error:
        for line in error.said:
            say(line)
        raise
    for line in said:
        say(line)
    say(f"The workspace is {args.folder or folder}")
    if new:
        say("Go there and begin: with day0_start.ipynb in `jupyter lab`, or in a terminal with `dlojz edit gpu`")
    return 0


def check(args) -> int:
    from .labs.verbs import check, target

    for lab in args.labs:
        target(lab)  # all or none: a name that isn't there is said before anything is checked
    codes = []
    for lab in args.labs:
        outcome = check(lab)
        _print(outcome)
        codes.append(outcome.exit_code)
    return next(code for code in (2, 1, 3, 0) if code in codes)


def hint(args) -> int:
    from .labs.verbs import hint

    return _print(hint(args.lab, args.step))


def edit(args) -> int:
    from .labs.verbs import edit

    return _print(edit(args.lab))


def diff(args) -> int:
    from .labs.verbs import diff

    return _print(diff(args.lab))


def solve(args) -> int:
    from .labs.verbs import Question, solve

    done = solve(args.lab, args.yes)
    _print(done)
    return 2 if isinstance(done, Question) else 0  # there was nobody to ask


def reset(args) -> int:
    from .labs.verbs import reset

    return _print(reset(args.lab, args.file))


def catch_up(args) -> int:
    from .labs.verbs import catch_up

    done = catch_up(args.lab)
    _print(done)
    return 0 if getattr(done, "ready", True) else 2


def quiz(args) -> int:
    from .labs.quiz import quiz

    asked = quiz(args.lab, args.question)
    return _print(repr(asked.answer(args.question, *args.answer) if args.answer else asked))


def predict(args) -> int:
    from .labs.quiz import predict

    return _print(repr(predict(args.lab, value=args.value)))


def progress(args) -> int:
    from .labs.progress import progress

    return _print(progress())


def lab_new(args) -> int:
    from .labs.author import new

    for line in new(args.lab, args.form):
        say(line)
    return 0


def lab_sync(args) -> int:
    from .labs import catalogue, notebooks

    for lab in [catalogue.lab(name) for name in args.labs] or catalogue.labs().values():
        for line in notebooks.sync(lab):
            say(line)
    return 0


def lab_test(args) -> int:
    from .labs import proof

    wrong = 0
    for well, line in proof.test(args.lab, args.only or proof.PARTS, args.answer):
        _print(line if well else f"✗ {line}")
        wrong += not well
    what = f"{wrong or 'nothing'} {'thing is' if wrong == 1 else 'things are' if wrong else 'is'} missing or wrong"
    _print(f"{args.lab}: {what}{' in ' + ' and '.join(args.only or ['these answers']) if args.only or args.answer else ''}")
    return 1 if wrong else 0


def lab_course(args) -> int:
    from .labs import catalogue, proof
    from .labs.launch import labs_of

    some = {lab.id: lab for word in args.labs for lab in labs_of(word)}
    labs = list(some.values()) or list(catalogue.labs().values())
    found = []
    try:
        for one in proof.course(labs, args.only or ["check", "notebook"], args.site, not args.labs, args.within):
            found.append(one)
            say(f"{one.lab}: {'; '.join(one.faults) or 'ok'} ({one.seconds / 60:.1f} min)")
    except ImportError:
        raise UsageError("notebooks are executed with nbclient, which is not installed: pip install 'dlojz[dev]'") from None
    except KeyboardInterrupt:  # what was proved is not lost
        say(f"{proof.course_table(found)}\nInterrupted: the table has only what was proved by then" if found else
            "Interrupted before the first lab was proved")
        raise
    say(proof.course_table(found))
    return 1 if any(one.faults for one in found) else 0


def lab_facts(args) -> int:
    from .labs import proof

    return _print("\n".join(proof.facts(args.kinds)))


def _print(result) -> int:
    """Show what a verb returned."""
    say(result)
    return 0


def course(args) -> int:
    from .course import start
    from .system.workspace import find

    return start(args.folder or find(), again=args.again)


def report(args) -> int:
    import gc

    from . import views
    from .jobs import runs
    from .jobs.states import WRONG

    gc.disable()  # long records are millions of objects, none of them garbage
    found = runs.several(*args.jobs)
    page = views.report(*found, against=args.against)
    say(f"The report is {page.save(args.html)}" if args.html else page)
    return int(any(run.state in WRONG for run in found))


def audit(args) -> int:
    from .labs.audit import audit, own_command

    script, *arguments = own_command("audit", args.command)
    found = audit(script, arguments, args.updates, args.seconds, args.ranks, args.pretend)
    if args.html:
        say(f"The audit is {found.view().save(args.html)}")
    else:
        say(found.json() if args.json else found.view().text)
    return found.code


def trace(args) -> int:
    from .labs.audit import own_command
    from .labs.audit.traced import traced
    from .training.tracing import NAME
    from .views import trace

    folder, code = traced(own_command("trace", args.command), args.updates, args.skip, args.ranks)
    if folder is not None:
        say(f"{trace(folder)}\nThe trace is {folder / NAME}")
    return code


def doctor(args) -> int:
    import shutil

    from .doctor import doctor

    report = doctor(args.warm)
    say(report.json() if args.json else report.text(min(120, shutil.get_terminal_size().columns)))
    return 1 if report.broken else 0


def submit(args) -> int:
    import shlex

    from .jobs import submit, table
    from .jobs.job import wait

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("name a script to run, such as: dlojz submit --name first -- train.py")
    words = ("name", "gpus", "nodes", "processes", "cores", "time", "site", "account", "partition", "qos", "constraint", "again",
             "dry_run")
    text = command[0] if len(command) == 1 else shlex.join(command)  # one argument: the whole command in quotes
    job = submit(text, **{word: getattr(args, word) for word in words})
    if job is None:
        return 0
    if not job.found:
        say(f"{job.run}: submitted as job {job.id}. Follow it: dlojz log -f {job.run}")
    if not args.wait:
        return 0
    try:
        wait([job])
    except KeyboardInterrupt:
        say(f"{job.run} goes on. Follow it: dlojz log -f {job.run}. End it: dlojz cancel {job.run}", file=sys.stderr)
        raise
    say(table([job], _longest()))
    return 0 if job.state == "COMPLETED" else 1


def jobs(args) -> int:
    from .jobs import jobs

    say(jobs.text(most=None if args.all else 20, longest=_longest()))
    return 0


def _longest() -> int | None:
    """Characters of a table's last column: what reads from a pipe or a file gets all of it."""
    return 100 if sys.stdout.isatty() else None


def log(args) -> int:
    from .jobs.job import follow
    from .jobs.states import end_of

    job = _one_job(args.job)
    name = "err.log" if args.err else "out.log"
    sys.stdout.reconfigure(errors="replace")  # a log may hold what this terminal can't show
    if args.follow and job.state == "PENDING":
        say(f"[{job.run} is waiting in the queue{': ' + ' '.join(job.reason.split()) if job.reason else ''}]", file=sys.stderr)
    shown = False
    for text in follow(job, name, wait=args.follow):
        shown = shown or bool(text)
        sys.stdout.write(text)  # as the script printed it, with its colours
        sys.stdout.flush()
    went_wrong = job.state not in ("COMPLETED", "PENDING", "RUNNING")
    if args.follow or not shown or went_wrong:
        # torchrun ends in a long traceback whatever a process ended with, be it that it was told to stop and has saved all.
        report = ". What ends in ChildFailedError above is torchrun's report of it"
        torchrun = report if args.err and "ChildFailedError" in end_of(job.folder / "err.log") else ""
        say(f"[{job.run} is {job.state}{': ' + ' '.join(job.reason.split()) if job.reason else ''}{torchrun}]", file=sys.stderr)
    if not args.err and went_wrong and end_of(job.folder / "err.log"):
        say(f"[its error output: dlojz log --err {job.run}]", file=sys.stderr)
    return 0


def cancel(args) -> int:
    from .jobs import Group, jobs

    found = [jobs[name] for name in args.jobs]  # all or none: a name that isn't there stops us before anything is ended
    for one in found:
        for job in one if isinstance(one, Group) else [one]:
            active = job.status.active
            job.cancel()  # says so where it cannot be told from here whether it has ended
            say(f"{job.run}: is being cancelled" if active else f"{job.run}: has ended already ({job.state})")
    return 0


def _one_job(name: str):
    from .jobs import Group, jobs

    job = jobs[name]
    if isinstance(job, Group):
        raise UsageError(f"{name} is a sweep of {len(job)}: say which run, {job[0].run} to {job[-1].run}")
    return job


def sites(args) -> int:
    from .system import sites

    say(sites.table())
    sites.current()  # raises where the one in use cannot be used
    return 0


def launch(args) -> int:
    from .labs import launch

    labs = launch.labs_of(args.what)
    plan = launch.plan(labs, args.site)
    say(plan)
    if args.dry_run or not plan.requests:
        return 1 if plan.problems else 0
    try:
        jobs = launch.launch(labs, args.site, say)
    except KeyboardInterrupt:
        say(f"What was submitted goes on. To follow it and to submit the rest: dlojz launch {args.what}", file=sys.stderr)
        raise
    failed = [job.run for job in jobs if not launch.went_as_meant(job)]
    ended = f"{len(jobs)} runs have ended" + (f", and not as they should: {', '.join(failed)}" if failed else " as they should")
    say(f"{ended}. Keep their records: dlojz reference save")
    return 1 if failed or plan.problems else 0


def rehearse(args) -> int:
    from .doctor import evening

    report = evening.rehearse(args.what, args.site, say, run=not args.no_runs)
    view = evening.as_page(report, args.what)
    say(view)
    if args.html:
        say(f"The page is {view.save(args.html)}")
    return 1 if report.broken else 0


def syllabus(args) -> int:
    from .labs.syllabus import syllabus

    view = syllabus(args.length, args.want)
    return _print(f"The syllabus is {view.save(args.html)}" if args.html else view)


def cheatsheet(args) -> int:
    from .labs.cheatsheet import cheatsheet

    view = cheatsheet()
    return _print(f"The cheat sheet is {view.save(args.html)}" if args.html else view)


def reference_save(args) -> int:
    from .jobs import recorded

    for line in recorded.keep(args.names, args.into):
        say(line)
    return 0


def reference_list(args) -> int:
    from .jobs import recorded
    from .labs import launch

    say(recorded.table())
    return _print(f"\nOf the runs that the notebooks submit:\n{launch.recorded()}")


def publish(args) -> int:
    from .labs.room import publish

    return _print(publish(False if args.stop else args.name))


def feedback(args) -> int:
    from .labs.room import feedback

    return _print(feedback(args.lab, args.value))


def room(args) -> int:
    from .views.room import follow, room, save

    if not args.html:
        return _print(room(args.folder))
    written = save(room(args.folder), args.html, reload=not args.once)
    say(f"The room is {written}" + ("" if args.once else "; open it in a browser. Ctrl-C ends its updates"))
    return 0 if args.once else follow(args.folder, args.html)


def main(argv=None) -> int:
    args = parser().parse_args(argv)
    try:
        return args.run(args)
    except UsageError as error:
        say(f"dlojz: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `dlojz log JOB | head`
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
