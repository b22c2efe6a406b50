# TODO: with --channels-last, the images lie as NHWC in memory, too. Their shape stays as it is.
if args.channels_last:
    todo("channels_last")
