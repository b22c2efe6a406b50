"""The facts of a run as the judges of an audit read them, and what they find."""

from __future__ import annotations

import functools
import linecache
import os
from dataclasses import asdict, dataclass

USED, NOT_USED, WRONG = "used", "not used", "used wrongly"
NOT_APPLICABLE, UNSEEN = "not applicable", "could not be seen"
VERDICTS = (WRONG, NOT_USED, UNSEEN, USED, NOT_APPLICABLE)  # in this order they are shown
NO_GPU = "Not in this run, which used no GPU: a script may do it on a GPU only. --pretend plays one."


@dataclass(frozen=True)
class Finding:
    technique: str
    verdict: str
    evidence: str
    line: int | None = None
    file: str | None = None
    brings: str = ""
    lab: str = ""
    docs: str = ""

    @property
    def source(self) -> str:
        """The line itself."""
        return linecache.getline(os.path.abspath(self.file), self.line).strip() if self.line else ""

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}" if self.line else ""

    def json(self) -> dict:
        return asdict(self) | {"source": self.source}


class Seen:
    """The facts of one run, in their order. ``ranks``: this one, and those of the other processes."""

    def __init__(self, events: list, *others: list):
        self.events = events
        self.ranks = [self, *map(Seen, others)]
        self.updates = self.all("passed")
        flags = self.first("flags")
        model = self.training()
        self.gpu = bool(flags and flags.gpu and model and any(place.startswith("cuda") for place in model.devices))
        self.tf32 = bool(flags) and flags.products not in ("highest", "ieee", "none")
        self.cores = flags.cores if flags else 0

    def all(self, *kinds: str) -> list:
        return [event for event in self.events if event.what in kinds]

    def first(self, kind: str):
        return next((event for event in self.events if event.what == kind), None)

    @property
    def group(self) -> str:
        """Why nothing can be said of several processes; empty where something can."""
        if len(self.ranks) == 1:
            return "One process: --ranks 2 shows what goes wrong between several."
        return "" if all(rank.first("group.made") for rank in self.ranks) else "The processes made no process group."

    def asked_in(self, training: bool, grad: bool | None = None) -> list[tuple]:
        """(loader, what it was asked for) of each pass of a model in training, or of each in eval mode; with or without gradients
        (``grad``; None: as it should be)."""
        asked, given, found = {}, None, []
        for event in self.all("batch.indices", "waited", "model"):
            if event.what == "batch.indices":  # workers are asked ahead of time, so what counts is what was given last
                asked[event.loader, event.epoch, event.batch] = event
            elif event.what == "waited":
                given = asked.get((event.loader, event.epoch, event.batch))
            elif given is not None and event.training == training and event.grad == (training if grad is None else grad):
                found.append((self.loaders.get(given.loader), given))
        return found

    @functools.cached_property
    def loaders(self) -> dict:
        return {event.number: event for event in self.all("loader")}

    def training(self):
        """The first pass of the model that is trained, with the formats of its weights; None: there is none."""
        return next((event for event in self.events if event.what == "model" and event.training), None)

    def absent(self, evidence: str) -> tuple:
        """The script has not done what helps on a GPU: with a GPU that is certain."""
        return (NOT_USED, evidence) if self.gpu else (UNSEEN, NO_GPU)

    def loader(self):
        """The loader that feeds the training."""
        return next((loader for loader, _ in self.asked_in(training=True)), None)

    def fed(self) -> set[int]:
        """The data sets of the loader that feeds the training, and of those that the same line made after it."""
        fed = [loader for loader, _ in self.asked_in(training=True) if loader]
        return {loader.of for loader in fed if (loader.file, loader.line) == (fed[0].file, fed[0].line)}
