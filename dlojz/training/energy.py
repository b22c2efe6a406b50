"""Power and energy of the job's own GPUs, from the counters of the driver; "not measured" (None) where there are none."""

from __future__ import annotations

import time


class EnergyMeter:
    """Energy that one GPU used between two readings.

    Reads NVML's total energy counter (Volta and later; mJ since the driver was loaded, refreshed about ten times a second) of the
    GPU with this UUID, so that CUDA_VISIBLE_DEVICES and Slurm's device binding do not matter. A GPU without the counter, a MIG
    slice, a missing library: ``read()`` gives None, never an estimate.
    """

    def __init__(self, uuid: str | None, nvml=None, clock=time.monotonic):
        self.clock = clock
        self._handle = None
        if uuid is None:
            return
        try:
            if nvml is None:
                import pynvml as nvml  # the package nvidia-ml-py
            nvml.nvmlInit()
            name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
            handle = nvml.nvmlDeviceGetHandleByUUID(name)
            nvml.nvmlDeviceGetTotalEnergyConsumption(handle)
            self._nvml, self._handle = nvml, handle
        except Exception:  # no library, no driver, no such counter: it is a measurement that we do not have
            self._handle = None

    def read(self) -> tuple[float, float] | None:
        """``(seconds, joules)`` now, or None."""
        if self._handle is None:
            return None
        try:
            return self.clock(), self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle) / 1000
        except Exception:
            return None


def power(first, last) -> float | None:
    """Mean power in watts between two readings; None where one is missing or they are less than half a second apart."""
    if first is None or last is None or last[0] - first[0] < 0.5:
        return None
    return (last[1] - first[1]) / (last[0] - first[0])
