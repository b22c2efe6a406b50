# >>> roofline.linear
# TODO: how many multiplications and additions, and how many bytes of x, of the weights and of the result?
return 0, 0
# <<< roofline.linear

# >>> roofline.convolution
# TODO: first the height and width of the output, then what each of its numbers costs
return 0, 0
# <<< roofline.convolution

# >>> roofline.pooling
# TODO: what changes where there are no weights, and a comparison in place of a product?
return 0, 0
# <<< roofline.pooling

# >>> roofline.relu
# TODO: what is read, what is written?
return 0, 0
# <<< roofline.relu

# >>> roofline.layer_norm
# TODO: operations per number as the docstring counts them; do not forget the parameters
return 0, 0
# <<< roofline.layer_norm

# >>> roofline.seconds
# TODO: arithmetic takes so long, memory takes so long: when are both done?
return 0.0
# <<< roofline.seconds

# >>> roofline.useful
# TODO: how many tiles, how many waves, and how many numbers all those tiles would have had room for?
return 0.0
# <<< roofline.useful
