"""What a GPU can do at most, from its data sheet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """Peaks without sparsity, in TFLOP/s and TB/s."""

    memory: float
    peak: dict[str, float]

    def ratio(self, kind: str) -> float | None:
        """Operations for each byte from which on arithmetic, and not memory, sets the time."""
        return self.peak[kind] / self.memory if kind in self.peak else None


# From NVIDIA's data sheets, that of Blackwell per GPU (GB200 NVL72, HGX B200); `float` is plain FP32.
# The first whose words are all in the device's name.
CARDS = (
    (("GB200",), Card(8.0, {"float": 80, "tf32": 1250, "half": 2500, "bfloat16": 2500})),
    (("B200",), Card(7.7, {"float": 75, "tf32": 1125, "half": 2250, "bfloat16": 2250})),
    (("GH200",), Card(4.0, {"float": 67, "tf32": 495, "half": 990, "bfloat16": 990})),
    (("H200",), Card(4.8, {"float": 67, "tf32": 495, "half": 990, "bfloat16": 990})),
    (("H100", "PCIe"), Card(2.0, {"float": 51, "tf32": 378, "half": 756, "bfloat16": 756})),
    (("H100", "NVL"), Card(3.9, {"float": 60, "tf32": 418, "half": 835, "bfloat16": 835})),
    (("H100",), Card(3.35, {"float": 67, "tf32": 495, "half": 990, "bfloat16": 990})),
    (("A100", "80GB"), Card(2.0, {"float": 19.5, "tf32": 156, "half": 312, "bfloat16": 312})),
    (("A100",), Card(1.55, {"float": 19.5, "tf32": 156, "half": 312, "bfloat16": 312})),
    (("V100",), Card(0.9, {"float": 15.7, "half": 125})),
    (("L40S",), Card(0.86, {"float": 91.6, "tf32": 183, "half": 362, "bfloat16": 362})),
    (("L4",), Card(0.3, {"float": 30.3, "tf32": 60, "half": 121, "bfloat16": 121})),
    (("T4",), Card(0.32, {"float": 8.1, "half": 65})),
)


def card(name: str) -> Card | None:
    return next((card for words, card in CARDS if all(word.lower() in name.lower() for word in words)), None)
