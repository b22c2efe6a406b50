# TODO: something is wrong from here on. Find it by what the script does, and mend it.
accuracy = right(mine) / (last - first)
dist.all_reduce(accuracy)
accuracy = accuracy.item() / place.world_size
