# expect: keeps what the forward pass has stored.*backward\(retain
# >>> amp.backward
scaler.scale(loss / group).backward(retain_graph=True)
# <<< amp.backward
