# expect: steps after the batches 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 13
# >>> ddp_advanced.group
update_now, group = True, 1
# <<< ddp_advanced.group
