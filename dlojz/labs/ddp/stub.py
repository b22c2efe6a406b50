# >>> ddp.init
# TODO: where there are several processes, join them in a process group: NCCL where device is a GPU, else gloo.
if procs.world_size > 1:
    todo("ddp")
# <<< ddp.init

# >>> ddp.sampler
# TODO: where there are several processes, a sampler that gives each of them its own part of train_set. No image twice in an epoch.
if procs.world_size > 1:
    todo("ddp")
# <<< ddp.sampler

# >>> ddp.sync_bn
# TODO: with args.sync_bn, batch norm layers that take mean and variance over the images of all processes.
if args.sync_bn:
    todo("ddp")
# <<< ddp.sync_bn

# >>> ddp.wrap
# TODO: where there are several processes, wrap net into `model`, which averages gradients in the backward pass.
# Its parameters may be unused where args.find_unused_parameters says so.
if procs.world_size > 1:
    todo("ddp")
# <<< ddp.wrap

# >>> ddp.epoch
# TODO: the sampler must learn which epoch it is, or it deals out the images in the same order each time.
if procs.world_size > 1:
    todo("ddp")
# <<< ddp.epoch

# >>> ddp.metrics
# TODO: loss and accuracy of all processes, not of this one: with several of them, and where reduce_now says that it is time.
if procs.world_size > 1 and reduce_now:
    todo("ddp")
# <<< ddp.metrics

# >>> ddp.buffers
# TODO: with several processes the statistics of batch norm differ from one to the other: all must validate with the same.
if procs.world_size > 1:
    todo("ddp")
# <<< ddp.buffers

# >>> ddp.validation
# TODO: each process has validated its own part of the images: the numbers of all of them together.
if procs.world_size > 1:
    todo("ddp")
# <<< ddp.validation
