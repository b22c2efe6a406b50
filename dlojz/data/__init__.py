"""Images for training: folders, the photos that the kit draws, shards, random tensors.

``folders`` holds what a training script calls, such as ``data.dataset(…)``. It is imported when one of its names is first used,
so that ``dlojz.data.photos`` needs no torch.
"""

from importlib import import_module

_ROOM = ("drawing", "folders", "photos", "shards", "small")


def __getattr__(name):
    if name.startswith("__") or name in _ROOM:  # the import system asks here before it looks for a file
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".folders", __name__), name)
