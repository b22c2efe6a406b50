# expect: begins at 2.15e\+09 times the loss, and the scale is 65536.*scale once.*`scaler.scale\(scaler
# >>> amp.backward
scaler.scale(scaler.scale(loss / group)).backward()
# <<< amp.backward
