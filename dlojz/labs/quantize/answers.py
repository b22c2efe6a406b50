# right: a reciprocal, a loop over the rows
# >>> quantize.absmax
most = 2 ** (bits - 1) - 1
rows, columns = weight.shape
if group == "tensor":
    largest = weight.float().abs().max().view(1, 1)
elif group == "channel":
    largest = torch.stack([row.abs().max() for row in weight.float()])[:, None]
else:
    largest = weight.float().abs().unflatten(1, (-1, group)).amax(2)
scale = largest / most
scale[scale == 0] = 1
wide = scale.expand(rows, -1).repeat_interleave(columns // scale.shape[1], 1)
return torch.clamp(torch.round(weight.float() * (1 / wide)), -most - 1, most).to(torch.int8), scale
# <<< quantize.absmax
# >>> quantize.zero_point
low, high = min(0.0, x.min().item()), max(0.0, x.max().item())
scale = torch.tensor((high - low) / 255 or 1.0)
zero = torch.tensor(round(-low / scale.item()), dtype=torch.int32)
return torch.clamp(torch.round(x.float() / scale + zero), 0, 255).to(torch.uint8), scale, zero
# <<< quantize.zero_point
# >>> quantize.linear
weight = q.to(torch.float32) * scale
return torch.nn.functional.linear(x, weight.to(x.dtype), bias)
# <<< quantize.linear

# right: bits by arithmetic, by torch's own functions
# >>> quantize.pack
low, high = q[:, 0::2].int() % 16, q[:, 1::2].int() % 16
return (low + 16 * high).to(torch.uint8)
# <<< quantize.pack
# >>> quantize.unpack
low, high = (packed % 16).int(), (packed // 16).int()
out = torch.empty(len(packed), 2 * packed.shape[1], dtype=torch.int8, device=packed.device)
out[:, 0::2] = ((low + 8) % 16 - 8).to(torch.int8)
out[:, 1::2] = ((high + 8) % 16 - 8).to(torch.int8)
return out
# <<< quantize.unpack
# >>> quantize.fp8
amax = torch.linalg.vector_norm(x.float(), float("inf"))
scale = amax / torch.finfo(dtype).max if amax > 0 else torch.ones_like(amax)
return torch.clamp(x.float() * (1 / scale), torch.finfo(dtype).min, torch.finfo(dtype).max).to(dtype), scale
# <<< quantize.fp8
# >>> quantize.prune
parts = weight.reshape(-1, 4)
a = parts.abs()
earlier = torch.ones(4, 4, dtype=torch.bool).tril(-1)
before = (a[:, None, :] > a[:, :, None]) | ((a[:, None, :] == a[:, :, None]) & earlier)
return torch.where(before.sum(2) < 2, parts, torch.zeros_like(parts)).reshape(weight.shape)
# <<< quantize.prune
# >>> quantize.fold
if bias is None:
    bias = torch.zeros_like(mean)
new = torch.nn.utils.fusion.fuse_conv_bn_weights(weight, bias, mean, variance, eps, gamma, beta)
return tuple(one.detach() for one in new)
# <<< quantize.fold

# wrong: the largest, not the largest magnitude · expect: a scale per tensor, the largest is negative: (q|scale) is(.|\n)*of its group(.|\n)*quantize.absmax
# >>> quantize.absmax
rows, columns = weight.shape
parts = weight.float().reshape(-1, {"tensor": weight.numel(), "channel": columns}.get(group, group))
scale = parts.amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
scale = torch.where(scale == 0, 1.0, scale)
return (parts / scale).round().to(torch.int8).view(rows, columns), scale.view(1 if group == "tensor" else rows, -1)
# <<< quantize.absmax

# wrong: 128 in place of 127 · expect: 1 row of 4 numbers, a scale per tensor: (q|scale) is(.|\n)*quantize.absmax
# >>> quantize.absmax
rows, columns = weight.shape
parts = weight.float().reshape(-1, {"tensor": weight.numel(), "channel": columns}.get(group, group))
scale = parts.abs().amax(1, keepdim=True) / 2 ** (bits - 1)
scale = torch.where(scale == 0, 1.0, scale)
q = (parts / scale).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1).to(torch.int8)
return q.view(rows, columns), scale.view(1 if group == "tensor" else rows, -1)
# <<< quantize.absmax

# wrong: cut off, not rounded · expect: 1 row of 4 numbers, a scale per tensor: q is(.|\n)*rounded to the nearest(.|\n)*quantize.absmax
# >>> quantize.absmax
rows, columns = weight.shape
parts = weight.float().reshape(-1, {"tensor": weight.numel(), "channel": columns}.get(group, group))
scale = parts.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
scale = torch.where(scale == 0, 1.0, scale)
return (parts / scale).to(torch.int8).view(rows, columns), scale.view(1 if group == "tensor" else rows, -1)
# <<< quantize.absmax

# wrong: a row of zeros divides by zero · expect: a row of zeros, a scale per channel: (q|scale) is(.|\n)*quantize.absmax
# >>> quantize.absmax
rows, columns = weight.shape
parts = weight.float().reshape(-1, {"tensor": weight.numel(), "channel": columns}.get(group, group))
scale = parts.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
return (parts / scale).round().to(torch.int8).view(rows, columns), scale.view(1 if group == "tensor" else rows, -1)
# <<< quantize.absmax

# wrong: 0 not in the range · expect: from 0\.5 to 2 only.*(q|scale|zero) is(.|\n)*quantize.zero_point
# >>> quantize.zero_point
least, largest = x.float().amin(), x.float().amax()
scale = (largest - least) / 255
scale = torch.where(scale == 0, 1.0, scale)
zero = (-least / scale).round().to(torch.int32)
return ((x / scale).round() + zero).clamp(0, 255).to(torch.uint8), scale, zero
# <<< quantize.zero_point

# wrong: the bias scaled, too · expect: with a bias(.|\n)*plus the bias as it is(.|\n)*quantize.linear
# >>> quantize.linear
y = x @ q.to(x.dtype).t()
return (y if bias is None else y + bias) * scale.t().to(x.dtype)
# <<< quantize.linear

# wrong: float32 comes out · expect: bfloat16, with a bias(.|\n)*the type of x(.|\n)*quantize.linear
# >>> quantize.linear
y = (x @ q.to(x.dtype).t()) * scale.t()
return y if bias is None else y + bias
# <<< quantize.linear

# wrong: the order of the halves · expect: 1 and 2: the result is \[?\[?18(.|\n)*the first number in the lower four bits(.|\n)*quantize.pack
# >>> quantize.pack
q = q.to(torch.uint8) & 15
return (q[:, ::2] << 4) | q[:, 1::2]
# <<< quantize.pack

# wrong: the sign spills over · expect: -1 and 3: the result is(.|\n)*quantize.pack
# >>> quantize.pack
q = q.to(torch.uint8)
return q[:, ::2] | (q[:, 1::2] << 4)
# <<< quantize.pack

# wrong: no sign · expect: the byte 0x3F(.|\n)*from -8 to 7(.|\n)*quantize.unpack
# >>> quantize.unpack
return torch.stack((packed & 15, packed >> 4), dim=2).to(torch.int8).flatten(1)
# <<< quantize.unpack

# wrong: halves side by side · expect: 2 rows of 2 bytes: the result is(.|\n)*quantize.unpack
# >>> quantize.unpack
q = torch.cat((packed & 15, packed >> 4), dim=1).to(torch.int8)
return torch.where(q > 7, q - 16, q)
# <<< quantize.unpack

# wrong: always the 448 of E4M3 · expect: E5M2: (q|scale) is(.|\n)*quantize.fp8
# >>> quantize.fp8
scale = x.float().abs().amax() / 448
scale = torch.where(scale == 0, 1.0, scale)
return (x.float() / scale).clamp(-448, 448).to(dtype), scale
# <<< quantize.fp8

# wrong: the scale upside down · expect: E4M3, all smaller than 1: (q|scale) is(.|\n)*quantize.fp8
# >>> quantize.fp8
most = torch.finfo(dtype).max
scale = most / x.float().abs().amax().clamp(min=1e-12)
return (x.float() * scale).clamp(-most, most).to(dtype), scale
# <<< quantize.fp8

# wrong: a scale forgotten · expect: x is small(.|\n)*times both scales(.|\n)*quantize.fp8_linear
# >>> quantize.fp8_linear
x8, scale_x = to_fp8(x)
w8, scale_w = to_fp8(weight)
return torch._scaled_mm(x8, w8.t(), scale_a=torch.ones_like(scale_x), scale_b=scale_w, out_dtype=x.dtype)
# <<< quantize.fp8_linear

# wrong: the two largest, not the largest magnitudes · expect: 4 numbers: the result is(.|\n)*the two of largest magnitude(.|\n)*quantize.prune
# >>> quantize.prune
parts = weight.reshape(-1, 4)
smallest = parts.sort(dim=1, descending=True, stable=True).indices[:, 2:]
return parts.scatter(1, smallest, 0).view_as(weight)
# <<< quantize.prune

# wrong: half of all, wherever · expect: equal magnitudes: the result is(.|\n)*in each four of a row(.|\n)*quantize.prune
# >>> quantize.prune
smallest = weight.abs().flatten().sort(stable=True).indices[: weight.numel() // 2]
return weight.flatten().scatter(0, smallest, 0).view_as(weight)
# <<< quantize.prune

# wrong: by a threshold · expect: equal magnitudes: the result is(.|\n)*of equal ones the first(.|\n)*quantize.prune
# >>> quantize.prune
parts = weight.reshape(-1, 4)
second = parts.abs().topk(2, dim=1).values[:, 1:]
return torch.where(parts.abs() >= second, parts, 0).view_as(weight)
# <<< quantize.prune

# wrong: the bias not scaled · expect: with the bias 7: bias is(.|\n)*times that factor(.|\n)*quantize.fold
# >>> quantize.fold
factor = gamma / torch.sqrt(variance + eps)
return weight * factor[:, None, None, None], (0 if bias is None else bias) - mean * factor + beta
# <<< quantize.fold

# wrong: along the channels · expect: 4 of 4 x 3 x 3: weight is|eps 0.5: (.|\n)*quantize.fold
# >>> quantize.fold
factor = gamma / torch.sqrt(variance + eps)
return weight * factor[None, :, None, None], ((0 if bias is None else bias) - mean) * factor + beta
# <<< quantize.fold

# wrong: no eps · expect: eps 0\.5: weight is(.|\n)*sqrt\(variance \+ eps\)(.|\n)*quantize.fold
# >>> quantize.fold
factor = gamma / torch.sqrt(variance)
return weight * factor[:, None, None, None], ((0 if bias is None else bias) - mean) * factor + beta
# <<< quantize.fold
