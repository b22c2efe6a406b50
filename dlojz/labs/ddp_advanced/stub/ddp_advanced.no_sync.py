# TODO: the context for forward and backward pass: no gradients are sent while more batches of the group follow.
if more_to_come:
    todo("ddp_advanced")
return nullcontext()
