# TODO: the backward pass from the loss as the scaler scales it. It belongs outside of autocast. What is scaled stays
# loss / group: with --accumulate, `group` batches add up their gradients for one update (else it is 1).
(loss / group).backward()
if scaler.is_enabled():
    todo("amp")
