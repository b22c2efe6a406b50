# expect: gradient of update 5 is 0.667 times that of its 4 images
# >>> ddp_advanced.group
update_now = last or position % args.accumulate == 0
group = args.accumulate if position <= steps_per_epoch - steps_per_epoch % args.accumulate else len(train_loader) % args.accumulate
# <<< ddp_advanced.group
