# expect: `todo\("channels_last"\)` is still called.*says that channels_last is not written yet.*Where to look: line \d+ .*`todo\("channels_last"\)`
# >>> channels_last.batch
if args.channels_last:
    images = images.to(memory_format=torch.channels_last)
if args.channels_last:
    todo("channels_last")
# <<< channels_last.batch
