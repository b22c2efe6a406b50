# TODO: with --channels-last, the weights of the convolutions lie as NHWC in memory. Shapes stay as they are.
if args.channels_last:
    todo("channels_last")
