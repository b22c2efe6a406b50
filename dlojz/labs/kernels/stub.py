# >>> kernels.waits
# TODO: this is right, and the host waits for the GPU four times. Write it without a wait, and without numbers made on the host.
outputs = outputs + noise * torch.randn(outputs.shape).to(outputs.device)
counted = (labels != ignored).nonzero().squeeze(1)
if len(counted) == 0:
    return outputs.sum() * 0
losses = functional.cross_entropy(outputs[labels != ignored], labels[counted], reduction="none")
return losses.sum() / losses.isfinite().sum().item()
# <<< kernels.waits

# >>> kernels.segments
# TODO: this is right, and asks for a few operations per segment. Write it in as many operations for a million segments as for two.
found = []
for segment in range(count):
    chosen = values[segments == segment]
    found.append(chosen.sum(0) / max(len(chosen), 1))
return torch.stack(found)
# <<< kernels.segments

# >>> kernels.dispatch
# TODO: note the operation's name in self.names; it must still be done
return operation(*args, **(kwargs or {}))
# <<< kernels.dispatch

# >>> kernels.pointwise
# TODO: which numbers does this program compute? Read them and their biases, in float32; compute; write. Nothing past the end.
pass
# <<< kernels.pointwise

# >>> kernels.softmax
# TODO: one pass over the row, BLOCK numbers at a time, with the largest and the sum so far; then a second one that writes
pass
# <<< kernels.softmax

# >>> kernels.attention
# TODO: scores of these rows and columns; then as in softmax, with one more thing to correct when a larger score comes
pass
# <<< kernels.attention
