# >>> fsdp.mesh
# TODO: a device mesh of all processes, with the names of dimensions that the docstring says.
todo("fsdp")
return None
# <<< fsdp.mesh

# >>> fsdp.precision
# TODO: the policy for `amp`. Which of its settings would also cast what a block is given?
if amp != "off":
    todo("fsdp")
return MixedPrecisionPolicy()
# <<< fsdp.precision

# >>> fsdp.shard
# TODO: spread the model over the mesh, so that a block is gathered by itself. As it is, each process trains a model of its own.
todo("fsdp")
# <<< fsdp.shard

# >>> fsdp.prefetch
# TODO: tell each block which blocks to gather while it computes, forward and backward.
todo("fsdp")
# <<< fsdp.prefetch

# >>> fsdp.accumulate
# TODO: gradients stay in their process while more batches come, and are summed over all processes after the last one.
if more_to_come:
    todo("fsdp")
# <<< fsdp.accumulate

# >>> fsdp.save
# TODO: write parameters and optimizer states, each process its part, into `folder`. Then the same without waiting.
todo("fsdp")
# <<< fsdp.save

# >>> fsdp.load
# TODO: read them back. A new optimizer has no states yet, so there is nothing to read into: who makes them?
todo("fsdp")
# <<< fsdp.load

# >>> fsdp.whole
# TODO: gather the parameters of all processes; rank 0 alone keeps them, as plain tensors.
todo("fsdp")
return {}
# <<< fsdp.whole
