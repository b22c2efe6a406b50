# expect: 3 of 5 weights with 4 dimensions lie as NCHW.*channels_last.model
# >>> channels_last.model
# <<< channels_last.model
