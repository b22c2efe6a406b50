# TODO: a context in which a process that has run out of batches does not keep the others waiting; or shorten `batches`,
# so that all processes have the same number.
together = nullcontext()
if args.uneven and procs.world_size > 1:
    todo("ddp_advanced")
