# expect: steps after the batches 1, 2, 3, 4, 5, 6, 7 and 8
# >>> ddp_advanced.group
update_now, group = True, 1
# <<< ddp_advanced.group
