# TODO: the sampler must learn which epoch it is, or it deals out the images in the same order each time.
if procs.world_size > 1:
    todo("ddp")
