"""Told: what the kit says of a training as it goes, by way of `dlojz.records.listeners`; and torch's own switches.

``recorded``    a step is over: loss, the mean over its images that goes into the record, accuracy, images, lr
``started``     the record's first line: args, world_size, batch_size, parameters, steps_per_epoch, total_steps
``validation``  loss, accuracy, images
``arguments``   when the training has ended: args, which nothing may have changed
``saved``       a checkpoint was saved
``ended``       the record's last line: status, steps, trace (whether the run has left one)
``torch``       torch's switches, when the training begins (in a script without a record: at its first forward pass) and when the
                script has ended: flags, and seed, from which torch's random numbers began last
"""

from __future__ import annotations

import torch

from .... import records

COMPARED = {
    "recorded": ("~loss", "accuracy", "images", "lr"),
    "started": ("args", "world_size", "batch_size", "parameters", "steps_per_epoch", "total_steps"),
    "validation": ("~loss", "accuracy", "images"),
    "arguments": ("args",),
    "saved": (),
    "ended": ("status", "steps", "trace"),
    "torch": ("flags", "seed"),
}
LINES = {"record.start": "started", "record.validation": "validation", "record.end": "ended"}
OWN = ("run_dir", "data")  # of the arguments those that say where this run is


class Observer:
    def __init__(self, log, options):
        self.log = log
        self.begun = False
        self.args = None
        self.threads = "as the machine has it"

    def install(self):
        original = torch.set_num_threads

        def set_num_threads(number):  # the probe has one thread itself: what is asked for tells more than what there is
            self.threads = number
            original(number)

        torch.set_num_threads = set_num_threads
        records.listeners.append(self.heard)
        torch.nn.modules.module.register_module_forward_pre_hook(self.forward)

    def heard(self, event, fields):
        if event == "record.start":
            self.note_first()
        if event == "step" and fields.get("sums") is not None:
            with self.log.silence():
                loss, *correct, images = fields["sums"].tolist()[:3]
            self.log.note("recorded", loss=loss / max(1, images), accuracy=correct[0] / max(1, images) if correct else None,
                          images=fields.get("images"), lr=fields.get("lr"))
        elif event in LINES and fields.get("status") != "failed":  # that is told as an error
            kind = LINES[event]
            found = {name: fields.get(name) for name in COMPARED_NAMES[kind] if name in fields}
            if isinstance(found.get("args"), dict):
                found["args"] = without_places(found["args"])
            if kind == "ended" and self.args is not None:
                self.log.note("arguments", args=without_places(vars(self.args)))
            self.log.note(kind, **found)
        elif event == "arguments":
            self.args = fields["args"]
        elif event == "saved":
            self.log.note("saved", at=fields["step"])

    def forward(self, module, args):
        if module.training and not self.log.quiet:
            self.note_first()

    def note_first(self):
        if not self.begun:
            self.begun = True
            self.note_flags()

    def finish(self):
        if self.begun:
            self.note_flags()

    def note_flags(self):
        with self.log.silence():
            flags = {
                "default dtype": str(torch.get_default_dtype()).removeprefix("torch."),
                "default device": str(torch.get_default_device()),
                "threads": self.threads, "gradients": torch.is_grad_enabled(),
                "deterministic": torch.are_deterministic_algorithms_enabled(),
                "float32 products": float32_products(), "cudnn.benchmark": torch.backends.cudnn.benchmark,
                "cudnn.deterministic": torch.backends.cudnn.deterministic, "anomaly detection": torch.is_anomaly_enabled(),
                "autocast": [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)],
            }
            seed = torch.initial_seed()
        self.log.note("torch", flags=flags, seed=seed)


def without_places(args: dict) -> dict:
    return {name: value for name, value in args.items() if name not in (*OWN, "switches")}


def float32_products() -> str:
    """``highest``, ``high`` or ``medium``. Where a script uses the new names of torch 2.9 after the old ones of train.py, torch
    computes, but raises where somebody reads the old ones: then what the new one says."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return torch.backends.cuda.matmul.fp32_precision


COMPARED_NAMES = {kind: tuple(name.lstrip("~") for name in names) for kind, names in COMPARED.items()}
