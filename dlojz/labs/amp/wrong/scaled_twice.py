# expect: beside the scale, the loss is multiplied by .*scaled once.*`scaler.scale\(scaler
# >>> amp.backward
scaler.scale(scaler.scale(loss / group)).backward()
# <<< amp.backward
