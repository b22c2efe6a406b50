# TODO: the backward pass from the loss as the scaler scales it. It belongs outside of autocast.
(loss / group).backward()
if scaler.is_enabled():
    todo("amp")
