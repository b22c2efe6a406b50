# expect: --amp bf16.*with 2 batches in a group.*are their sum
# >>> amp.backward
if scaler.is_enabled():
    scaler.scale(loss / group).backward()
else:
    loss.backward()
# <<< amp.backward
