"""A check beside the kit's own run: which fact belongs to which fence, in which words.

    both = probe.beside("--amp fp16 --clip-grad 0.5")
    both.same("layer.computes", look="amp.forward", saw="the layer {name} computes in {mine}", expected="it computes in {kits}")

The table is judged when the check function has returned (`Beside.trouble`): by the earliest step in which a fact differs, and in
it the first that a row names. What no row names is refused, too, in words of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import compare, kept, waiting
from . import observe as observers
from .compare import Difference
from .facts import Event, Facts


class Unmet(Exception):
    """An expectation of a check that does not hold. ``look``: the id of a fence, or a fact, whose line it is."""

    def __init__(self, saw: str, expected: str, look):
        super().__init__(saw)
        self.saw, self.expected, self.look = saw, expected, look


def expect(holds: bool, *, saw: str, expected: str, look) -> None:
    """Ends the check with these words unless ``holds``.

    ``look``: where the learner should look: the id of a fence, or a fact, whose line it is.
    """
    if not holds:
        raise Unmet(saw, expected, look)


@dataclass(frozen=True)
class Claim:
    """What must hold of a run: ``sentence`` is what the outcome says is verified, or else expected. Made by `claim`."""

    sentence: str
    look: str
    seen: Callable
    always: bool = False

    def judge(self, *given) -> None:
        """Raises Unmet with what was seen instead."""
        found = self.seen(*given)
        if found:
            saw, look = (found, self.look) if isinstance(found, str) else found
            raise Unmet(saw, self.sentence, look or self.look)


def claim(sentence: str, look: str, always: bool = False) -> Callable[[Callable], Claim]:
    """Makes a claim of a function that returns None where the sentence holds; else the words for what it has seen, or a pair of
    these words and a fact, whose line is to be looked at. ``look``: the fence that it belongs to. ``always``: it is judged
    also where the run broke off, before that is reported."""
    return lambda seen: Claim(sentence, look, seen, always)


@dataclass(frozen=True)
class Row:
    facts: tuple[str, ...]
    look: object
    saw: object
    expected: str

    def fits(self, name: str) -> int:
        """How much of the name it says; 0 where it is about another fact."""
        return max((len(fact) for fact in self.facts if name == fact or name.startswith(f"{fact}.")), default=0)


@dataclass(frozen=True)
class Trouble:
    """What is wrong with one run. ``stopped``: the run that ended too early; else the words and where to look. ``named``: whether
    the check knows this mistake."""

    saw: str = ""
    expected: str = ""
    look: object = None
    event: Event | None = None
    stopped: Facts | None = None
    named: bool = True


class Pair:
    """What is judged when the check function has returned. ``mine``: the run of the trainee's files; ``kits_runs``: those of the
    kit's, each of which has to be well for the comparison to say something."""

    def __init__(self, mine: Facts):
        self.mine = mine
        self.kits_runs: list[Facts] = []
        self.sentences: list[str] = []

    def says(self, sentence: str) -> None:
        """A sentence for what is verified where nothing differs."""
        if sentence and sentence not in self.sentences:
            self.sentences.append(sentence)

    def trouble(self, mine: Facts | None = None) -> Trouble | None:
        """What is wrong with the trainee's run, or with this one in its place; None where nothing is."""
        raise NotImplementedError

    def settle(self) -> None:
        """Called once the kit's run is known to be well."""


class Beside(Pair):
    """A run of the trainee's files, ``mine``, and the same one of the kit's, ``kits``: both are read like any run."""

    def __init__(self, mine: Facts, kits: Facts, key: str, probe):
        super().__init__(mine)
        self.kits, self.key, self.probe, self.kits_runs = kits, key, probe, kits.ranks
        self.rows: list[Row] = []
        self.claims: list[tuple[Claim, tuple]] = []
        self.free: list[str] = []

    # ------------------------------------------------------------------------------------------------------- the table
    def same(self, *facts: str, look, saw, expected: str = "it is {kits}, as in the kit's own run", claim: str = "") -> None:
        """A row of the table: where one of these facts differs, these are the words.

        ``facts``: names such as ``update.gradient``, ``update.missing``, ``model.inputs.format`` (`dlojz.labs.probe.compare`).
        One that is not compared by default is compared now. ``look``: the id of a fence, used where trying the fences one by one
        does not settle it. ``saw``, ``expected``: texts with ``{mine}``, ``{kits}``, ``{step}``, ``{ratio}``, ``{where}`` and the
        keys of the fact (`Difference.words`), or a function of the `Difference`. The command and the step stand before ``saw``.
        ``claim``: a sentence for what is verified where nothing differs.
        """
        self.rows.append(Row(facts, look, saw, expected))
        self.says(claim)

    def holds(self, claim: Claim, *given) -> None:
        """What comparing does not say: the claim must hold of the trainee's run, with these values beside it."""
        self.claims.append((claim, given))

    def may_differ(self, *facts: str) -> None:
        """These are not compared: a right answer may have others."""
        self.free += facts

    # --------------------------------------------------------------------------------------------------------- judging
    def trouble(self, mine: Facts | None = None) -> Trouble | None:
        mine = mine or self.mine
        if evaluates := self._in_eval(mine):
            return evaluates
        found = [(difference, self._row(difference.name)) for difference in self.differences(mine)]
        first = found[0][0].step if found else 0
        named = next(((each, row) for each, row in found if row and each.step <= first), None)
        both = zip(mine.ranks, self.kits.ranks)
        early = next((rank for rank, kits in both if rank.completed and rank.steps < kits.steps), None)
        if early and found and first >= early.steps:
            return Trouble(f"{early.said} exits early, with exit code 0 after {early.steps} steps", "it runs to completion",
                           early.ended, early.ended)
        if named:
            return self._named(*named)
        whole = all(rank.completed for rank in mine.ranks)
        for each, given in self.claims:
            if not (whole or each.always):
                continue
            try:
                each.judge(mine, *given)
            except Unmet as unmet:
                return Trouble(unmet.saw, unmet.expected, unmet.look, unmet.look if isinstance(unmet.look, Event) else None)
        if not whole:
            cause = next((each for each, _ in found if each.step <= first and each.name in CAUSES), None)
            if cause is not None:
                return self._unnamed(cause)
            waits = waiting.in_vain(mine)
            return Trouble(*waits, event=waits[2]) if waits else Trouble(stopped=mine.cause)
        return self._unnamed(found[0][0]) if found else None

    def _in_eval(self, mine: Facts) -> Trouble | None:
        """A model that learns in eval mode, which the kit's does not: steps are counted by the passes in training."""
        for rank, kits in zip(mine.ranks, self.kits.ranks):
            usual = max((model.get("evaluating", 0) for model in learning(kits)), default=0)
            model = next((model for model in learning(rank) if model.get("evaluating", 0) > usual), None)
            if model is not None:
                how = "the model is" if not model.training else f"{model.evaluating} of the model's modules are"
                return Trouble(f"{rank.said}, step {model.step + (not model.training)}: {how} in eval mode while it trains",
                               "in training mode, as `net.train()` has set it: in eval mode dropout does nothing, and batch "
                               "normalization learns no statistics", None, model, named=False)
        return None

    def differences(self, mine: Facts) -> list[Difference]:
        compared = self._compared(mine)
        found = compare.differences(mine, self.kits, compared, compare.least_precise(self.kits))
        return [each for each in found if not any(each.name == free or each.name.startswith(f"{free}.") for free in self.free)]

    def _compared(self, mine: Facts) -> dict[str, tuple[str, ...]]:
        compared = {kind: list(keys) for kind, keys in observers.compared().items()}
        kinds = {*compared, *(event.what for facts in (mine, self.kits) for rank in facts.ranks for event in rank.events)}
        for name in (name for row in self.rows for name in row.facts):
            kind = max((kind for kind in kinds if name == kind or name.startswith(f"{kind}.")), key=len, default=None)
            if kind is None:
                continue
            key = name[len(kind) + 1 :].split(".")[0]
            keys = compared.setdefault(kind, [])
            if key and key not in ("missing", "extra", *(each.lstrip("~") for each in keys)):
                keys.append(key)
        return {kind: tuple(keys) for kind, keys in compared.items() if kind not in self.free}

    def _row(self, name: str) -> Row | None:
        fit, row = max(((row.fits(name), -place) for place, row in enumerate(self.rows)), default=(0, 0))
        return self.rows[-row] if fit else None

    def _named(self, difference: Difference, row: Row) -> Trouble:
        words = difference.words()
        saw, expected = (part(difference) if callable(part) else part.format_map(words) for part in (row.saw, row.expected))
        look = row.look(difference) if callable(row.look) else row.look
        event = look if isinstance(look, Event) else difference.fact
        return Trouble(f"{self._where(difference)}: {saw}", expected, look, event)

    def _unnamed(self, difference: Difference) -> Trouble:
        what, words = difference.name, difference.words()
        if what in UNNAMED:
            saw, expected = (part.format_map(words) for part in UNNAMED[what])
        elif what.endswith(".missing"):
            saw, expected = f"no `{what.removesuffix('.missing')}`", f"one, as in the kit's own run ({words['kits']})"
        elif what.endswith(".extra"):
            saw = f"one `{what.removesuffix('.extra')}` too many ({words['mine']})"
            expected = "none here, as in the kit's own run"
        elif words["mine"] == words["kits"]:
            saw, expected = f"`{what}` has other numbers of the same size, {words['mine']}", "the numbers of the kit's own run"
        else:
            saw, expected = f"`{what}` is {words['mine']}", f"it is {words['kits']}, as in the kit's own run"
        return Trouble(f"{self._where(difference)}: {saw}", expected, None, difference.fact, named=False)

    @staticmethod
    def _where(difference: Difference) -> str:
        return difference.facts.said + (f", step {difference.step}" if difference.step else ", before the first step")

    def settle(self) -> None:
        """Keeps the kit's facts, where they are new."""
        if self.key and all(rank.completed for rank in self.kits.ranks):
            kept.store(self.key, [rank.events for rank in self.kits.ranks])
            self.key = ""


def learning(facts: Facts) -> list[Event]:
    """The forward passes of a model that a backward pass follows."""
    found, model = [], None
    for event in facts.events:
        if event.what == "model":
            model = event
        elif event.what == "backward" and model is not None:
            found.append(model)
    return found


SWITCHES = "as the switches say: the rest of the file goes by `args`, so your code only reads it"
RELIED_ON = "{kits}: after your fences the rest of the file counts with `loss`, `outputs`, `images` and `labels`"
ONE_STEP = "one for each update, which train.py makes itself"
UNNAMED = {  # saw, expected: what any fence may break, in whatever lab
    "started.args": ("`args.{first}` is {its}", "{should}, " + SWITCHES),
    "arguments.args": ("at the end of the training `args.{first}` is {its}", "{should}, " + SWITCHES),
    "torch.flags": ("torch's setting `{first}` is {its}",
                    "{should}, as before: it holds for all that follows, not for your lines alone"),
    "torch.seed": ("torch's random numbers begin again, from the seed {mine}",
                   "from {kits} alone: what follows, such as dropout, would be the same with each --seed"),
    "model.settings": ("layers of the model have other settings: {where}", "the layers that train.py has made, as it made them"),
    "schedule.missing": ("the schedule of the learning rate takes no step", ONE_STEP),
    "schedule.extra": ("the schedule of the learning rate takes one step too many", ONE_STEP),
    "recorded.loss": ("the loss that goes into the record is {mine}", RELIED_ON),
    "recorded.accuracy": ("the accuracy that goes into the record is {mine}", RELIED_ON),
}
CAUSES = ("started.args", "torch.flags", "torch.seed")  # of a run that breaks off later
FUNCTION = {  # saw, expected
    "error": ("stops with {mine}", "it returns a result"),
    "kind": ("{part} {is_} {mine}", "{it} {is_} {kits}"),
    "dtype": ("{part} {is_} {mine}", "{it} {is_} {kits}"),
    "shape": ("{part} {has} the shape {mine}", "{it} {has} the shape {kits}"),
    "device": ("{part} {is_} on {mine}", "{it} {is_} on {kits}, where the inputs are"),
    "value": ("{part} {is_} {mine}{where}", "{it} {is_} {kits}{apart}"),
    "inputs": ("argument {mine} is changed", "what goes in stays as it is"),
    "waits": ("the host waits for the GPU {mine}", "all that the GPU has still to compute stays there"),
    "random": ("it takes other numbers from torch's generator than it needs", "only what has to be random is drawn"),
}


def plural(part: str) -> bool:
    """Whether "are" follows the name of a part: "the weights", "logits held at one time"; not "the loss"."""
    noun = re.split(r" (?:of|in|at|per|held|that|with|without|from|taken|after|before|for) ", part)[0]
    return noun.endswith("s") and not noun.endswith(("ss", "us", "is", "as")) and not noun.startswith("what ")


class Called(Pair):
    """The trainee's function beside the kit's, for a list of inputs. ``function``: as a message names it."""

    def __init__(self, mine: Facts, function: str, look, words: dict[str, str], at_most: float | None, gives: Sequence[str]):
        super().__init__(mine)
        self.function, self.look, self.own_words, self.at_most = function, look, words, at_most
        self.parts = {f"part {number} of the result": name for number, name in enumerate(gives, 1)}

    def trouble(self, mine: Facts | None = None) -> Trouble | None:
        mine = mine or self.mine
        for case in mine.all("case"):
            if case.wrong:
                return self._differs(case)
        if not mine.completed:
            return Trouble(stopped=mine.cause)
        speed = mine.first("speed")
        if self.at_most is not None and speed and speed.ratio > self.at_most:
            what = "as long as the kit's function, in the same process" if isinstance(speed.mine, float) else \
                f"as many operations of torch as the kit's function: {speed.mine} and {speed.kits}"
            return Trouble(f"`{self.function}` takes {speed.ratio:.3g} times {what}",
                           self.own_words.get("time", f"at most {self.at_most:g} times"), self.look)
        return None

    def _differs(self, case: Event) -> Trouble:
        saw, expected = FUNCTION[case.wrong]
        at = case.get("at")
        part = case.get("part", "")
        part = self.parts.get(part, part)
        verbs = ("they", "are", "have") if plural(part) else ("it", "is", "has")
        words = {"part": part, "mine": case.mine, "kits": case.kits, "where": f" at {at}" if at else "",
                 **dict(zip(("it", "is_", "has"), verbs, strict=True)),
                 "apart": f", and the two differ by up to {case.largest:.3g}" if case.get("largest") is not None and at else ""}
        key = part if case.wrong == "value" and part in self.own_words else case.wrong
        return Trouble(f"`{self.function}`, {case.name}: {saw.format_map(words)}",
                       self.own_words.get(key, expected).format_map(words), self.look, case)
