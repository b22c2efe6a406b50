# right: tensor by tensor
# >>> roofline.linear
tensors = [(batch, inputs), (outputs, inputs), (batch, outputs)]
return sum(2 for _ in range(1)) * batch * (inputs * outputs), sum(a * b for a, b in tensors) * size
# <<< roofline.linear
# >>> roofline.convolution
def out(side):
    return math.floor((side + 2 * padding - (kernel - 1) - 1) / stride + 1)

h, w = out(height), out(width)
y, seen = images * filters * h * w, channels // groups * kernel * kernel
return y * seen * 2, (images * channels * height * width + filters * seen + y) * size
# <<< roofline.convolution
# >>> roofline.seconds
intensity = flops / moved
return moved / bandwidth if intensity < peak / bandwidth else flops / peak
# <<< roofline.seconds
# >>> roofline.useful
tiles = -(-m // tile_m) * -(-n // tile_n)
slots = (tiles + processors - 1) // processors * processors
return m * n / (slots * tile_m * tile_n)
# <<< roofline.useful

# right: as floats
# >>> roofline.pooling
h, w = [int((side - kernel + 2 * padding) / stride) + 1 for side in (height, width)]
each = images * channels
return float(each * h * w * (kernel * kernel - 1)), float((each * height * width + each * h * w) * size)
# <<< roofline.pooling
# >>> roofline.relu
return numbers * 1.0, size * numbers * 2.0
# <<< roofline.relu
# >>> roofline.layer_norm
return 8.0 * rows * columns, (rows * columns + rows * columns + columns + columns) * size
# <<< roofline.layer_norm
# >>> roofline.seconds
return moved / min(bandwidth, peak * moved / flops) if flops else moved / bandwidth
# <<< roofline.seconds

# wrong: products alone · expect: `linear`, 1 row of 2 numbers.*operations are 6.*a product and an addition for each weight.*roofline.linear
# >>> roofline.linear
return batch * inputs * outputs, size * (batch * inputs + inputs * outputs + batch * outputs)
# <<< roofline.linear

# wrong: the weights forgotten · expect: `linear`, 1 row of 2 numbers.*bytes are 20.*x, the weights and the result.*roofline.linear
# >>> roofline.linear
return 2 * batch * inputs * outputs, size * batch * (inputs + outputs)
# <<< roofline.linear

# wrong: numbers, not bytes · expect: bytes are 11\D(.|\n)*in bytes of their type.*roofline.linear
# >>> roofline.linear
return 2 * batch * inputs * outputs, batch * inputs + inputs * outputs + batch * outputs
# <<< roofline.linear

# wrong: one number · expect: `linear`, 1 row of 2 numbers(.|\n)*2 values
# >>> roofline.linear
return 2 * batch * inputs * outputs
# <<< roofline.linear

# wrong: output as large as the input · expect: 1 image of 1 channel, 4 x 4 pixels, 1 filter of 3 x 3: operations are 288(.|\n)*roofline.convolution
# >>> roofline.convolution
weights, results = filters * (channels // groups) * kernel**2, images * filters * (height // stride) * (width // stride)
return 2 * results * (channels // groups) * kernel**2, size * (images * channels * height * width + weights + results)
# <<< roofline.convolution

# wrong: rounded up · expect: stride 2, an odd side|4 x 4 pixels, windows|first layer(.|\n)*roofline.convolution
# >>> roofline.convolution
high, wide = (math.ceil((side + 2 * padding - kernel) / stride) + 1 for side in (height, width))
weights, results = filters * (channels // groups) * kernel**2, images * filters * high * wide
return 2 * images * high * wide * weights, size * (images * channels * height * width + weights + results)
# <<< roofline.convolution

# wrong: groups forgotten · expect: 32 channels in 4 groups: operations are(.|\n)*each weight that it sees(.|\n)*roofline.convolution
# >>> roofline.convolution
high, wide = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
weights, results = filters * channels * kernel**2, images * filters * high * wide
return 2 * images * high * wide * weights, size * (images * channels * height * width + weights + results)
# <<< roofline.convolution

# wrong: a window has nine comparisons · expect: `pooling`, .*operations are 16(.|\n)*one comparison less(.|\n)*roofline.pooling
# >>> roofline.pooling
high, wide = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
results = images * channels * high * wide
return results * kernel**2, size * (images * channels * height * width + results)
# <<< roofline.pooling

# wrong: read only · expect: `relu`, 1 numbers of 4 bytes: bytes are 4\D(.|\n)*each number is read, and written(.|\n)*roofline.relu
# >>> roofline.relu
return numbers, numbers * size
# <<< roofline.relu

# wrong: parameters forgotten · expect: `layer_norm`, .*bytes are 8\D(.|\n)*two parameters per column(.|\n)*roofline.layer_norm
# >>> roofline.layer_norm
return 8 * rows * columns, 2 * size * rows * columns
# <<< roofline.layer_norm

# wrong: one after the other · expect: `seconds`, 1e9 operations, 1e6 bytes(.|\n)*work at the same time(.|\n)*roofline.seconds
# >>> roofline.seconds
return flops / peak + moved / bandwidth
# <<< roofline.seconds

# wrong: the peak alone · expect: `seconds`, 1e9 operations, 1e9 bytes(.|\n)*the slower of the two(.|\n)*roofline.seconds
# >>> roofline.seconds
return flops / peak
# <<< roofline.seconds

# wrong: no waves · expect: `useful`, one tile, two processors(.|\n)*the tiles of all waves(.|\n)*roofline.useful
# >>> roofline.useful
return m * n / (math.ceil(m / tile_m) * tile_m * math.ceil(n / tile_n) * tile_n)
# <<< roofline.useful

# wrong: tiles not rounded · expect: `useful`, half of a tile, one processor(.|\n)*roofline.useful
# >>> roofline.useful
tiles = m / tile_m * n / tile_n
return tiles / (math.ceil(tiles / processors) * processors) if tiles >= 1 else 1.0
# <<< roofline.useful
