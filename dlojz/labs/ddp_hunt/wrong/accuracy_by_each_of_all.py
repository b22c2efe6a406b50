# expect: ddp_2.py: rank \d looks at 10 points(.|\n)*ddp_hunt.accuracy
# >>> ddp_hunt.accuracy
accuracy = right(slice(0, 10)).item() / 10
# <<< ddp_hunt.accuracy
