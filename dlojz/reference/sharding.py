"""One model spread over processes (FSDP2), as train_lm.py's --shard calls it: each process keeps a part of each parameter, of its
gradient and of its optimizer states, and borrows the rest of a block while it computes with that block."""

import functools

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard  # noqa: F401

from dlojz import todo  # noqa: F401


def make_mesh(device_type: str, replicas: int = 1):
    """The processes as a mesh of torch's: with 1 replica one dimension, ``shard``; with more two, ``replicate`` and ``shard``.

    Processes whose ranks follow each other share a replica: they are on one node, where the network is fast.
    """
    # >>> fsdp.mesh: one dimension, or replicas of the model beside its shards
    world = dist.get_world_size()
    if replicas == 1:
        return init_device_mesh(device_type, (world,), mesh_dim_names=("shard",))
    return init_device_mesh(device_type, (replicas, world // replicas), mesh_dim_names=("replicate", "shard"))
    # <<< fsdp.mesh


def precision(amp: str):
    """The policy of ``--amp``: with ``bf16`` all compute with bfloat16 parameters, and gradients are summed over processes in
    float32; with ``off`` nothing is cast. Inputs of blocks stay as they are: the angles of the rotary embedding are float32."""
    # >>> fsdp.precision: what is sent and computed with, and what gradients are summed in
    if amp == "off":
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)
    # <<< fsdp.precision


def shard(net, mesh, policy, keep: bool = False):
    """Spreads ``net`` over the ``mesh``, in place: each of ``net.blocks`` is gathered by itself, and the rest of ``net`` once.

    ``policy``: of mixed precision, for all. ``keep``: a block stays whole between its forward and its backward pass (ZeRO stage
    2), which saves a collective and costs memory; else it is gathered again (stage 3). The rest of ``net`` always stays whole:
    the backward pass begins with it.
    """
    # >>> fsdp.shard: each block, then the root
    for block in net.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=not keep)
    fully_shard(net, mesh=mesh, mp_policy=policy, reshard_after_forward=False)  # embedding, last norm: what no block holds
    # <<< fsdp.shard


def prefetch(net, ahead: int):
    """While a block computes, the next ``ahead`` blocks are gathered already, in the forward and in the backward pass."""
    # >>> fsdp.prefetch: each block asks for those after it, and in the backward pass for those before it
    blocks = list(net.blocks)
    for number, block in enumerate(blocks):
        block.set_modules_to_forward_prefetch(blocks[number + 1 : number + 1 + ahead])
        block.set_modules_to_backward_prefetch(blocks[max(0, number - ahead) : number][::-1])
    # <<< fsdp.prefetch


def accumulate(net, more_to_come: bool):
    """Called before each forward pass: gradients stay in their process while ``more_to_come``; the last pass sends their sums."""
    # >>> fsdp.accumulate: whether the backward pass sends gradients
    net.set_requires_gradient_sync(not more_to_come)
    # <<< fsdp.accumulate


# ------------------------------------------------------------------------------------------------------------- checkpoints
@functools.cache
def aside():
    """A second process group of all, on the CPU, for what happens beside the training. All call."""
    return dist.new_group(backend="gloo")


def save(folder, net, optimizer, wait: bool = True):
    """Writes parameters and optimizer states into ``folder``, each process its own part, under the names ``model`` and
    ``optimizer``. All call. With ``wait=False`` returns, once all is copied, a future that is done when the files are written:
    training goes on meanwhile. The thread that writes talks to other processes in a group of its own, `aside`: in the group of
    the training its messages would be taken for the training's, and both would wait for ever."""
    # >>> fsdp.save: each process writes what it holds
    model, states = get_state_dict(net, optimizer)
    state = {"model": model, "optimizer": states}
    if wait:
        dcp.save(state, checkpoint_id=folder)
        return None
    return dcp.async_save(state, checkpoint_id=folder, process_group=aside())
    # <<< fsdp.save


def load(folder, net, optimizer):
    """Puts back what `save` wrote, whatever the number of processes was: each reads the parts that it needs. All call."""
    # >>> fsdp.load: each process reads what it is to hold
    model, states = get_state_dict(net, optimizer)
    dcp.load({"model": model, "optimizer": states}, checkpoint_id=folder)
    set_state_dict(net, optimizer, model_state_dict=model, optim_state_dict=states)
    # <<< fsdp.load


def whole(net):
    """A state dict for inference: plain tensors on the CPU with the names of the model, on rank 0; empty on all others. All
    call."""
    # >>> fsdp.whole: gathered by all, kept by rank 0
    return get_model_state_dict(net, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    # <<< fsdp.whole


class Shares:
    """Model and optimizer, for a checkpoint of which each process writes and reads its part. ``wait``: see `save`."""

    def __init__(self, net, optimizer, wait=True):
        self.net, self.optimizer, self.wait = net, optimizer, wait

    def save(self, folder):
        return save(folder, self.net, self.optimizer, self.wait)

    def load(self, folder):
        load(folder, self.net, self.optimizer)
