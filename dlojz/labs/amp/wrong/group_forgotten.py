# expect: --amp fp16.*with 2 batches in a group.*are their sum.*`scaler.scale\(loss\)
# >>> amp.backward
scaler.scale(loss).backward()
# <<< amp.backward
