"""What processes send each other: which operator of torch is which collective, and a mode that counts them."""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode

KINDS = {
    "allreduce_": "all_reduce", "allreduce_coalesced_": "all_reduce", "broadcast_": "broadcast", "reduce_": "reduce",
    "allgather_": "all_gather", "_allgather_base_": "all_gather", "allgather_coalesced_": "all_gather",
    "allgather_into_tensor_coalesced_": "all_gather", "gather_": "gather", "scatter_": "scatter",
    "reduce_scatter_": "reduce_scatter", "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter", "alltoall_": "all_to_all", "alltoall_base_": "all_to_all",
    "monitored_barrier_": "barrier", "recv_": "recv",
}
FUNCTIONAL = {"all_reduce": "all_reduce", "all_gather_into_tensor": "all_gather", "reduce_scatter_tensor": "reduce_scatter",
              "all_to_all_single": "all_to_all", "broadcast": "broadcast"}  # with and without _coalesced, and _ where in place


def kind_of(operation) -> str:
    """Which collective an operator of torch is: c10d's, or a functional one, as a DTensor calls it. Empty for all others."""
    name = operation.overloadpacket.__name__
    if operation.namespace == "c10d":
        return KINDS.get(name, name)
    if operation.namespace in ("_c10d_functional", "_c10d_functional_autograd"):
        return FUNCTIONAL.get(name.removesuffix("_").removesuffix("_coalesced"), "")
    return ""


class Sent(TorchDispatchMode):
    """Notes the collectives that this process calls in its block, also those that autograd or a DTensor calls: ``found`` has
    (kind, bytes of the largest tensor that is given, its dtype), in their order. ``each``: called with each kind and its bytes,
    before it begins."""

    def __init__(self, each=lambda kind, size: None):
        super().__init__()
        self.found, self.each = [], each

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(kind.__name__ == "DTensor" for kind in types):
            return NotImplemented  # a DTensor first calls what it is made of, and that comes here again
        if kind := kind_of(function):
            given = [each for each in torch.utils._pytree.tree_leaves(args) if isinstance(each, torch.Tensor)]
            size = max((each.nbytes for each in given), default=0)
            self.each(kind, size)
            self.found.append((kind, size, str(given[0].dtype).removeprefix("torch.") if given else ""))
        return function(*args, **(kwargs or {}))

    def facts(self) -> dict:
        """By kind: ``count``, ``bytes`` of all, ``largest``, and the ``dtype`` of the first."""
        return {kind: {"count": len(some), "bytes": sum(size for _, size, _ in some),
                       "largest": max(size for _, size, _ in some), "dtype": some[0][2]}
                for kind in dict.fromkeys(kind for kind, _, _ in self.found)
                if (some := [each for each in self.found if each[0] == kind])}
