# >>> quantize.absmax
# TODO: which numbers share a scale? Reshape so that they are a row, then find the scale of each row, and divide.
return torch.zeros_like(weight, dtype=torch.int8), torch.ones(1, 1)
# <<< quantize.absmax

# >>> quantize.zero_point
# TODO: the range, with 0 in it; the scale; the whole number that stands for 0; and all others
return torch.zeros_like(x, dtype=torch.uint8), torch.tensor(1.0), torch.tensor(0, dtype=torch.int32)
# <<< quantize.zero_point

# >>> quantize.linear
# TODO: multiply by whole numbers first. Where does the scale of an output come in, and where the bias?
return x.new_zeros(len(x), len(q))
# <<< quantize.linear

# >>> quantize.pack
# TODO: what is -1 in four bits? Which number goes to the lower half of a byte, and which one four bits up?
return torch.zeros(len(q), q.shape[1] // 2, dtype=torch.uint8, device=q.device)
# <<< quantize.pack

# >>> quantize.unpack
# TODO: both halves of each byte, in their order; then the sign: 15 means -1
return torch.zeros(len(packed), packed.shape[1] * 2, dtype=torch.int8, device=packed.device)
# <<< quantize.unpack

# >>> quantize.fp8
# TODO: a scale that brings the largest magnitude to the largest number of the type; nothing beyond it
return torch.zeros_like(x, dtype=dtype), torch.tensor(1.0)
# <<< quantize.fp8

# >>> quantize.fp8_linear
# TODO: x and weight in FP8, then torch._scaled_mm with both scales
return x.new_zeros(len(x), len(weight))
# <<< quantize.fp8_linear

# >>> quantize.prune
# TODO: rows of four; which two of each are the smallest?
return weight.clone()
# <<< quantize.prune

# >>> quantize.fold
# TODO: batch norm multiplies each filter's output by one number and adds another. Which ones?
return weight, torch.zeros_like(mean) if bias is None else bias
# <<< quantize.fold
