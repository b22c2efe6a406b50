# >>> channels_last.model
# TODO: with --channels-last, the weights of the convolutions are in NHWC order in memory. Shapes do not change.
if args.channels_last:
    todo("channels_last")
# <<< channels_last.model

# >>> channels_last.batch
# TODO: with --channels-last, the images are in NHWC order in memory, too. Their shape does not change.
if args.channels_last:
    todo("channels_last")
# <<< channels_last.batch
