# expect: the loss goes into the record as .*the variable `loss` stays.*amp.backward
# >>> amp.backward
loss = loss / group
scaler.scale(loss).backward()
# <<< amp.backward
