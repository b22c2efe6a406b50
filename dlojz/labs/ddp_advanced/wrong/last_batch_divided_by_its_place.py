# expect: gradient of update 3 is not that of its 2 batches.*the fence ddp_advanced.group
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = args.accumulate if not last else (position - 1) % args.accumulate + 1
# <<< ddp_advanced.group
