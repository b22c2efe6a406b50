"""For checks of runs with ``contents=True``: whether it is the model that was made, and learns from what the loader gave."""

from __future__ import annotations

from .checking import expect
from .probe import Facts

ROUNDING = 1e-4  # of a normalised pixel, which is between -2.2 and 2.7


def as_it_was_made(run: Facts, when: str, look: str, weights: str) -> None:
    """Ends the check where the model begins with other weights, or not all of them learn. ``when`` begins what is seen;
    ``weights`` says what is expected of their values."""
    began = run.need("began")
    expect(began.difference == 0,
           saw=f"{when}, the model's weights are others than those that it was made with, or stand in other places",
           expected=weights, look=look)
    expect(not began.frozen,
           saw=f"{when}, {began.frozen} of the model's parameters do not ask for gradients",
           expected="all of them learn, as before", look=look)


def those_of_the_loader(run: Facts, when: str, look: str, every: str, images: str, labels: str) -> None:
    """Ends the check where they are others. ``when`` begins what is seen; ``every``, ``images`` and ``labels`` say what is
    expected: of the number of images, their values, and the labels."""
    for fed in run.all("fed"):
        where = f"{when}, step {fed.step}"
        expect(fed.given == fed.loaded,
               saw=f"{where}, the loader gives {fed.loaded} images and the model gets {fed.given}", expected=every, look=look)
        expect(fed.difference is not None and fed.difference < ROUNDING,
               saw=f"{where}, the images that the model is given are not those that the loader gave", expected=images, look=look)
    for compared in run.all("compared"):
        expect(compared.same,
               saw=f"{when}, step {compared.step}, the labels that the loss compares with are not those that the loader gave",
               expected=labels, look=look)
