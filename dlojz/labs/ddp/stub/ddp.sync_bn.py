# TODO: with args.sync_bn, batch norm layers that take mean and variance over the images of all processes.
if args.sync_bn:
    todo("ddp")
