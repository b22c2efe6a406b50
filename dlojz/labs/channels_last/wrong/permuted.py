# expect: images have the shape \[4, 32, 32, 3\].*channels_last.batch
# >>> channels_last.batch
if args.channels_last:
    images = images.permute(0, 2, 3, 1).contiguous()
# <<< channels_last.batch
