# expect: rank 0 says that it has validated 2 images; it has looked at 2, both together at 3(.|\n)*ddp.validation
# >>> ddp.validation
pass
# <<< ddp.validation
