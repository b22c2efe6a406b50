# expect: ddp_2.py: rank \d says that the accuracy is (.|\n)*ddp_hunt.accuracy
# >>> ddp_hunt.accuracy
accuracy = right(mine).item() / (last - first)
# <<< ddp_hunt.accuracy
