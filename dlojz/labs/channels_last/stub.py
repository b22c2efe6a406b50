# >>> channels_last.model
# TODO: with --channels-last, the weights of the convolutions lie as NHWC in memory. Shapes stay as they are.
if args.channels_last:
    todo("channels_last")
# <<< channels_last.model

# >>> channels_last.batch
# TODO: with --channels-last, the images lie as NHWC in memory, too. Their shape stays as it is.
if args.channels_last:
    todo("channels_last")
# <<< channels_last.batch
