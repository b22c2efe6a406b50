# expect: the loss is .* and goes into the record as .*amp.backward
# >>> amp.backward
loss = loss / group
scaler.scale(loss).backward()
# <<< amp.backward
