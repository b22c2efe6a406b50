# right: by masks and sums
# >>> kernels.waits
weights = (labels != ignored).to(outputs.dtype)
noisy = torch.normal(outputs, noise) if noise else outputs
log = noisy.log_softmax(1).gather(1, labels.clamp(min=0)[:, None]).squeeze(1)
return -(log * weights).sum() / weights.sum().clamp(min=1)
# <<< kernels.waits
# >>> kernels.segments
index = segments.unsqueeze(1).expand_as(values)
return torch.zeros(count, values.shape[1], dtype=values.dtype, device=values.device).scatter_reduce(
    0, index, values, "mean", include_self=False)
# <<< kernels.segments
# >>> kernels.dispatch
result = operation(*args, **kwargs) if kwargs else operation(*args)
self.names += [f"{operation}"]
return result
# <<< kernels.dispatch
# >>> kernels.pointwise
number = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
y = tl.load(x + number, mask=number < size, other=0.0).to(tl.float32)
y += tl.load(bias + number % columns, mask=number < size, other=0.0).to(tl.float32)
phi = (1 + tl.erf(y / 1.4142135623730951)) / 2
tl.store(out + number, y * phi, mask=number < size)
# <<< kernels.pointwise
# >>> kernels.softmax
top = float("-inf")
total = 0.0
for first in range(0, columns, BLOCK):
    at = first + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < columns, other=float("-inf")).to(tl.float32)
    new = tl.maximum(top, tl.max(value, axis=0))
    shift = tl.where(new > float("-inf"), new, 0.0)
    total = total * tl.exp(top - shift) + tl.sum(tl.exp(value - shift), axis=0)
    top = new
for first in range(0, columns, BLOCK):
    at = first + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < columns).to(tl.float32)
    tl.store(out + at, tl.exp(value - top) / total, mask=at < columns)
# <<< kernels.softmax
# >>> kernels.attention
scores = scale * tl.dot(query, keys, input_precision="ieee")
scores += tl.where(columns[None, :] < length, 0.0, float("-inf"))
if CAUSAL:
    scores += tl.where(rows[:, None] >= columns[None, :], 0.0, float("-inf"))
new = tl.maximum(largest, tl.max(scores, axis=1))
weights = tl.exp(scores - new[:, None])
total *= tl.exp(largest - new)
result *= tl.exp(largest - new)[:, None]
total += tl.sum(weights, axis=1)
result += tl.dot(weights.to(values.dtype), values)
largest = new
# <<< kernels.attention

# right: softmax in three passes, index_add
# >>> kernels.segments
sums = torch.zeros(count, values.shape[1], dtype=values.dtype, device=values.device)
rows = torch.zeros(count, dtype=values.dtype, device=values.device)
sums = sums.index_add(0, segments, values)
rows = rows.index_add(0, segments, torch.ones_like(segments, dtype=values.dtype))
return torch.where(rows[:, None] > 0, sums / rows[:, None], torch.zeros_like(sums))
# <<< kernels.segments
# >>> kernels.softmax
block = tl.arange(0, BLOCK)
top = tl.full((BLOCK,), float("-inf"), tl.float32)
for first in range(0, columns, BLOCK):
    top = tl.maximum(top, tl.load(x + first + block, mask=first + block < columns, other=float("-inf")).to(tl.float32))
largest = tl.max(top, 0)
total = tl.zeros((BLOCK,), tl.float32)
for first in range(0, columns, BLOCK):
    value = tl.load(x + first + block, mask=first + block < columns, other=float("-inf")).to(tl.float32)
    total += tl.exp(value - largest)
whole = tl.sum(total, 0)
for first in range(0, columns, BLOCK):
    value = tl.load(x + first + block, mask=first + block < columns, other=float("-inf")).to(tl.float32)
    tl.store(out + first + block, tl.exp(value - largest) / whole, mask=first + block < columns)
# <<< kernels.softmax

# wrong: a value is read · expect: `noisy_loss`, 64 images on the GPU.*the host waits for the GPU(.|\n)*no value is read(.|\n)*kernels.waits
# >>> kernels.waits
counts = (labels != ignored).sum().item()
outputs = outputs + noise * torch.randn_like(outputs)
return functional.cross_entropy(outputs, labels, reduction="sum", ignore_index=ignored) / max(counts, 1)
# <<< kernels.waits

# wrong: a mask as index · expect: 64 images on the GPU.*the host waits for the GPU(.|\n)*no size depends on values(.|\n)*kernels.waits
# >>> kernels.waits
outputs = outputs + noise * torch.randn_like(outputs)
kept = labels != ignored
losses = functional.cross_entropy(outputs[kept], labels[kept], reduction="sum")
return losses / kept.sum().clamp(min=1)
# <<< kernels.waits

# wrong: made on the host · expect: \[64, 10\] is made on the CPU and copied to the GPU(.|\n)*kernels.waits
# >>> kernels.waits
outputs = outputs + noise * torch.randn(outputs.shape).to(outputs.device)
losses = functional.cross_entropy(outputs, labels, reduction="none", ignore_index=ignored)
return losses.sum() / (labels != ignored).sum().clamp(min=1)
# <<< kernels.waits

# wrong: ignored images count · expect: one of which is ignored: the loss is(.|\n)*over the images whose label counts(.|\n)*kernels.waits
# >>> kernels.waits
outputs = outputs + noise * torch.randn_like(outputs)
return functional.cross_entropy(outputs, labels, reduction="none", ignore_index=ignored).mean()
# <<< kernels.waits

# wrong: nan · expect: 2 images, both ignored: the loss is nan(.|\n)*kernels.waits
# >>> kernels.waits
outputs = outputs + noise * torch.randn_like(outputs)
return functional.cross_entropy(outputs, labels, ignore_index=ignored)
# <<< kernels.waits

# wrong: the square of the noise · expect: 2048 images, noise 3: (.|\n)*of this standard deviation(.|\n)*kernels.waits
# >>> kernels.waits
outputs = outputs + noise**2 * torch.randn_like(outputs)
losses = functional.cross_entropy(outputs, labels, reduction="none", ignore_index=ignored)
return losses.sum() / (labels != ignored).sum().clamp(min=1)
# <<< kernels.waits

# wrong: bincount waits · expect: `segment_mean`, on the GPU: the host waits(.|\n)*no size depends on values(.|\n)*kernels.segments
# >>> kernels.segments
sums = values.new_zeros(count, values.shape[1]).index_add_(0, segments, values)
return sums / torch.bincount(segments, minlength=count).clamp(min=1).to(values.dtype)[:, None]
# <<< kernels.segments

# wrong: a loop without waits · expect: `segment_mean` takes \d+ times as many operations(.|\n)*for 200 segments as for two(.|\n)*kernels.segments
# >>> kernels.segments
found = []
for segment in range(count):
    inside = (segments == segment).to(values.dtype)[:, None]
    found.append((values * inside).sum(0) / inside.sum().clamp(min=1))
return torch.stack(found)
# <<< kernels.segments

# wrong: empty segments divide by zero · expect: an empty segment: the result is(.|\n)*0 where it has none(.|\n)*kernels.segments
# >>> kernels.segments
sums = values.new_zeros(count, values.shape[1]).index_add_(0, segments, values)
return sums / values.new_zeros(count).index_add_(0, segments, values.new_ones(len(values)))[:, None]
# <<< kernels.segments

# wrong: the zeros count as a row · expect: 4 rows of 1 column in 2 segments: the result is(.|\n)*divided by their number(.|\n)*kernels.segments
# >>> kernels.segments
out = values.new_zeros(count, values.shape[1])
return out.scatter_reduce_(0, segments[:, None].expand_as(values), values, "mean")
# <<< kernels.segments

# wrong: noted, not done · expect: `Listing`, a sum: (.|\n)*kernels.dispatch
# >>> kernels.dispatch
self.names.append(str(operation))
# <<< kernels.dispatch

# wrong: arguments by name are lost · expect: `Listing`, zeros, with a type and a shape by name(.|\n)*kernels.dispatch
# >>> kernels.dispatch
self.names.append(str(operation))
return operation(*args)
# <<< kernels.dispatch

# wrong: past the end · expect: `bias_gelu`, 3 rows of 37 numbers.*tl.load.*goes past the end of `x`(.|\n)*within the tensors(.|\n)*kernels.pointwise
# >>> kernels.pointwise
at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
value = tl.load(x + at).to(tl.float32) + tl.load(bias + at % columns).to(tl.float32)
tl.store(out + at, 0.5 * value * (1 + tl.erf(value * 0.7071067811865476)), mask=at < size)
# <<< kernels.pointwise

# wrong: the first block in all programs · expect: `bias_gelu`, 2 rows of 16 numbers, in blocks of 8: the result is(.|\n)*kernels.pointwise
# >>> kernels.pointwise
at = tl.arange(0, BLOCK)
value = tl.load(x + at, mask=at < size).to(tl.float32) + tl.load(bias + at % columns, mask=at < size).to(tl.float32)
tl.store(out + at, 0.5 * value * (1 + tl.erf(value * 0.7071067811865476)), mask=at < size)
# <<< kernels.pointwise

# wrong: in half precision · expect: `bias_gelu`, bfloat16: stops with TypeError: tl.erf computes in float32(.|\n)*kernels.pointwise
# >>> kernels.pointwise
at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
inside = at < size
value = tl.load(x + at, mask=inside) + tl.load(bias + at % columns, mask=inside)
tl.store(out + at, 0.5 * value * (1 + tl.erf(value * 0.7071067811865476)), mask=inside)
# <<< kernels.pointwise

# wrong: zeros past the end · expect: `softmax`, 3 rows of 37 numbers(.|\n)*over the whole row(.|\n)*kernels.softmax
# >>> kernels.softmax
largest = tl.full((BLOCK,), float("-inf"), tl.float32)
total = tl.zeros((BLOCK,), tl.float32)
for first in range(0, columns, BLOCK):
    at = first + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    new = tl.maximum(largest, value)
    total = total * tl.exp(largest - new) + tl.exp(value - new)
    largest = new
top = tl.max(largest, 0)
total = tl.sum(total * tl.exp(largest - top), 0)
for first in range(0, columns, BLOCK):
    at = first + tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at, mask=at < columns).to(tl.float32) - top) / total, mask=at < columns)
# <<< kernels.softmax

# wrong: the sum so far not corrected · expect: `softmax`, 2 rows of 32 numbers, in two blocks: the result is(.|\n)*kernels.softmax
# >>> kernels.softmax
top, total = float("-inf"), 0.0
for first in range(0, columns, BLOCK):
    at = first + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < columns, other=float("-inf")).to(tl.float32)
    top = tl.maximum(top, tl.max(value, 0))
    total += tl.sum(tl.exp(value - top), 0)
for first in range(0, columns, BLOCK):
    at = first + tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at, mask=at < columns).to(tl.float32) - top) / total, mask=at < columns)
# <<< kernels.softmax

# wrong: no largest · expect: `softmax`, numbers around 1000: the result is nan(.|\n)*kernels.softmax
# >>> kernels.softmax
total = tl.zeros((BLOCK,), tl.float32)
for first in range(0, columns, BLOCK):
    at = first + tl.arange(0, BLOCK)
    total += tl.exp(tl.load(x + at, mask=at < columns, other=float("-inf")).to(tl.float32))
whole = tl.sum(total, 0)
for first in range(0, columns, BLOCK):
    at = first + tl.arange(0, BLOCK)
    tl.store(out + at, tl.exp(tl.load(x + at, mask=at < columns).to(tl.float32)) / whole, mask=at < columns)
# <<< kernels.softmax

# wrong: the result so far not corrected · expect: `attention`, 32 keys, two blocks: the result is(.|\n)*kernels.attention
# >>> kernels.attention
scores = tl.dot(query, keys) * scale
if CAUSAL:
    scores = tl.where(columns[None, :] <= rows[:, None], scores, float("-inf"))
scores = tl.where(columns[None, :] < length, scores, float("-inf"))
new = tl.maximum(largest, tl.max(scores, 1))
weights = tl.exp(scores - new[:, None])
total = total * tl.exp(largest - new) + tl.sum(weights, 1)
result = result + tl.dot(weights.to(values.dtype), values)
largest = new
# <<< kernels.attention

# wrong: keys past the end · expect: `attention`, 37 keys: the last block is not full: the result is(.|\n)*columns that a row may see(.|\n)*kernels.attention
# >>> kernels.attention
scores = tl.dot(query, keys) * scale
if CAUSAL:
    scores = tl.where(columns[None, :] <= rows[:, None], scores, float("-inf"))
new = tl.maximum(largest, tl.max(scores, 1))
weights = tl.exp(scores - new[:, None])
shrink = tl.exp(largest - new)
total = total * shrink + tl.sum(weights, 1)
result = result * shrink[:, None] + tl.dot(weights.to(values.dtype), values)
largest = new
# <<< kernels.attention

# wrong: it sees what comes later · expect: `attention`, causal, 32 keys: the result is(.|\n)*columns that a row may see(.|\n)*kernels.attention
# >>> kernels.attention
scores = tl.where(columns[None, :] < length, tl.dot(query, keys) * scale, float("-inf"))
new = tl.maximum(largest, tl.max(scores, 1))
weights = tl.exp(scores - new[:, None])
shrink = tl.exp(largest - new)
total = total * shrink + tl.sum(weights, 1)
result = result * shrink[:, None] + tl.dot(weights.to(values.dtype), values)
largest = new
# <<< kernels.attention

# wrong: two types in a product · expect: `attention`, float16, 40 keys: stops with TypeError: tl.dot: both blocks have the same type(.|\n)*kernels.attention
# >>> kernels.attention
scores = tl.dot(query, keys) * scale
if CAUSAL:
    scores = tl.where(columns[None, :] <= rows[:, None], scores, float("-inf"))
scores = tl.where(columns[None, :] < length, scores, float("-inf"))
new = tl.maximum(largest, tl.max(scores, 1))
weights = tl.exp(scores - new[:, None])
shrink = tl.exp(largest - new)
total = total * shrink + tl.sum(weights, 1)
result = result * shrink[:, None] + tl.dot(weights, values)
largest = new
# <<< kernels.attention
