# expect: `todo\("ddp_advanced"\)` is still called.*says that ddp_advanced is not written yet.*Where to look: line \d+ .*`todo\("ddp_advanced"\)`
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = min(args.accumulate, epoch_lengths[epoch] - (position - 1) // args.accumulate * args.accumulate)
if args.accumulate > 1:
    todo("ddp_advanced")
# <<< ddp_advanced.group
