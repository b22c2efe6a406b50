"""A record from a training loop that belongs to a library: a callback for Lightning, one for the Trainer of Hugging Face.

    from dlojz import callbacks

    lightning.Trainer(callbacks=[callbacks.for_lightning()])     # lightning 2, or pytorch_lightning
    transformers.Trainer(…, callbacks=[callbacks.for_trainer()])

Keyword arguments go to `Recorder`: ``args``, ``unit``, ``folder``, …
"""

from __future__ import annotations

import sys

from .recorder import Recorder


def for_lightning(**given):
    """A Lightning callback: loss of each update, phases, the last numbers of each validation whose names hold ``loss`` or
    ``acc``. With gradient accumulation an update has the loss of its last batch."""
    pl = sys.modules.get("lightning.pytorch") or sys.modules.get("pytorch_lightning")  # the one that the script uses
    if pl is None:
        import lightning.pytorch as pl
    from importlib import import_module

    size_of = import_module(f"{pl.__name__}.utilities.data").extract_batch_size

    class Recording(pl.Callback):
        run, items = None, 0

        def on_train_start(self, trainer, module):
            self.most = trainer.estimated_stepping_batches

        def on_train_epoch_start(self, trainer, module):
            if self.run is not None:
                self.run.chronometer.start()

        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            size = size_of(batch)
            if self.run is None:  # the first batch says how large one is
                total = int(self.most) if 0 < self.most < float("inf") else None
                several = {"world_size": trainer.world_size, "global_batch": size * trainer.accumulate_grad_batches *
                           trainer.world_size}
                self.run = Recorder(module, size * trainer.accumulate_grad_batches, total, **_asked(
                    {"bf16-mixed": "bf16", "16-mixed": "fp16"}.get(trainer.precision), {"phases": True} | several | given))
                self.run.chronometer.start()
            self.items, self.updated = self.items + size, trainer.global_step
            self.run.chronometer.copy()
            self.run.forward()

        def on_before_backward(self, trainer, module, loss):
            self.loss = loss.detach() * trainer.accumulate_grad_batches
            self.run.backward()

        def on_before_optimizer_step(self, trainer, module, optimizer):
            self.run.update()

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if trainer.global_step > self.updated:
                rate = trainer.optimizers[0].param_groups[0]["lr"]
                self.run.step(self.loss, items=self.items, epoch=trainer.current_epoch, lr=rate)
                self.items = 0

        def on_validation_end(self, trainer, module):
            if self.run is not None and not trainer.sanity_checking:
                self.run.validated(epoch=trainer.current_epoch, **_named(trainer.callback_metrics))

        def on_train_end(self, trainer, module):
            self.run.end()
            self.run = None

    return Recording()


def _asked(amp: str | None, given: dict) -> dict:
    """What a `Recorder` is given: the views read from ``args`` in which format it computes."""
    return given | {"args": ({"amp": amp} if amp else {}) | (given.get("args") or {})}


def _named(metrics: dict) -> dict:
    """Of the numbers of a validation those that a record knows: the first loss and the first accuracy of a validation."""
    found = {}
    for name, value in metrics.items():
        kind = next((kind for kind, part in (("loss", "loss"), ("accuracy", "acc")) if part in name.lower()), None)
        if kind and name.lower().startswith(("val", "eval", "test")):
            found.setdefault(kind, float(value))
    return found


def for_trainer(**given):
    """A callback for `transformers.Trainer`: whole updates, with the mean loss since the update that was logged before, where
    the Trainer logs (``logging_steps``), and validations."""
    from transformers import TrainerCallback

    class Recording(TrainerCallback):
        run, open = None, False  # open: an update is over that the Trainer has still to log

        def on_train_begin(self, args, state, control, model=None, **kwargs):
            size = args.per_device_train_batch_size * args.gradient_accumulation_steps
            several = {"world_size": args.world_size, "global_batch": size * args.world_size}
            self.run = Recorder(model, size, state.max_steps,
                                **_asked("bf16" if args.bf16 else "fp16" if args.fp16 else None, several | given))
            self.run.chronometer.start()

        def on_step_begin(self, args, state, control, **kwargs):
            self._close()
            self.run.chronometer.copy()

        def on_step_end(self, args, state, control, lr_scheduler=None, **kwargs):
            self.open = True
            self.fields = {"epoch": int(state.epoch or 0)}
            if lr_scheduler is not None:
                self.fields["lr"] = lr_scheduler.get_last_lr()[0]
            if not control.should_log:  # where it is, `on_log` has the loss
                self._close()

        def on_log(self, args, state, control, logs=None, **kwargs):
            if self.open and "loss" in (logs or {}):
                self._close(loss=float(logs["loss"]))

        def on_evaluate(self, args, state, control, metrics=None, **kwargs):
            if self.run is not None:
                self._close()
                self.run.validated(**_named(metrics or {}))

        def on_train_end(self, args, state, control, **kwargs):
            self._close()
            self.run.end()
            self.run = None

        def _close(self, **found):
            if self.open:
                self.run.step(**found, **self.fields)
            self.open = False

    return Recording()
