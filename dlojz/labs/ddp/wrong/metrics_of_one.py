# expect: rank 0 has .* as the loss after step 2 \(its own alone\)(.|\n)*ddp.metrics
# >>> ddp.metrics
pass
# <<< ddp.metrics
