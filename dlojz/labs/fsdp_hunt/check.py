"""fsdp_hunt: each of six scripts does what its first lines promise. Two processes run each, beside two that run the kit's."""

import re

from dlojz.labs.checking import claim

FENCES = ("optimizer", "root", "blocks", "call", "save", "norm")
SAYS = ("fsdp_1.py: the optimizer updates the parts that the model has",
        "fsdp_2.py: both processes train one model, the last layer included",
        "fsdp_3.py: one block is whole at a time",
        "fsdp_4.py: the call of the model gathers what it computes with",
        "fsdp_5.py: all gather, one saves, and the file has the whole model",
        "fsdp_6.py: the norm is that of the whole gradient, and all scale it alike")
OWN_WAY = ("collective", "group", "model", "layer", "loss", "made")  # what is right is said below
TIMES = {0: "no file", 1: "once"}
SAME = 2e-3  # of a number: what differs by less is another order of sums


def check(probe):
    options = {"small": False, "ranks": 2, "on_cpu": True, "slow_save": True,
               "observe": ["collectives", "layers", "printing", "replicas"]}
    for number, (fence, sentence) in enumerate(zip(FENCES, SAYS), 1):
        both = probe.beside(script=f"hunt/fsdp_{number}.py", **options)
        both.may_differ(*OWN_WAY)
        look = f"fsdp_hunt.{fence}"
        both.same("save.extra", "save.missing", look=look,
                  expected="rank 0 saves once, the others never: processes that write one file at the same time spoil it",
                  saw=lambda each: f"it saves {TIMES.get(count := len(each.facts.all('save')), f'{count} times')}")
        both.same("wrap.extra", look=look, saw="the model is given to DistributedDataParallel",
                  expected="it is given to `fully_shard`: with DDP each process keeps the whole model, which may not fit")
        both.holds(claim(f"the numbers of the kit's script, where {sentence.partition(': ')[2]}", look)(prints), both.kits)
        both.says(sentence)


def prints(run, kits):
    for facts, other in zip(run.ranks, kits.ranks):
        mine, wanted = printed(facts), printed(other)
        for line in wanted:
            if not any(agree(each, line) for each in mine):
                alike = [each for each in mine if without_numbers(each) == without_numbers(line)]
                found = next((each for each in alike if form(each) == form(line)), (*alike, "nothing like it")[0])
                return f"{facts.said} prints `{found.strip()}`, and the kit's `{line.strip()}`"


def form(text):
    return re.sub(r"(?<=[\[ ])-?\d+\.\d+", "", text)


def without_numbers(text):
    return re.sub(r"-?\d+(\.\d+)?", "", text)


def agree(one, other):
    """Whether two lines say the same, numbers with a point up to SAME."""
    pairs = zip(*(map(float, re.findall(r"(?<=[\[ ])-?\d+\.\d+", text)) for text in (one, other)))
    return form(one) == form(other) and all(abs(a - b) <= SAME * max(abs(b), 0.01) for a, b in pairs)


def printed(facts):
    return [fact.text for fact in facts.all("print")]
