# expect: beside the scale, the loss is multiplied by 1 .*the number of batches.*`scaler.scale\(loss\)
# >>> amp.backward
scaler.scale(loss).backward()
# <<< amp.backward
