# expect: --amp bf16.*beside the scale, the loss is multiplied by 1 .*the number of batches.*`loss.backward
# >>> amp.backward
if scaler.is_enabled():
    scaler.scale(loss / group).backward()
else:
    loss.backward()
# <<< amp.backward
