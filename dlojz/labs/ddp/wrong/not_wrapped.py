# expect: each updates its parameters with the gradient of its own batch alone(.|\n)*ddp.wrap
# >>> ddp.wrap
pass
# <<< ddp.wrap
