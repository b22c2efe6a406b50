# expect: weights are others than those that it was made with.*channels_last.model
# >>> channels_last.model
if args.channels_last:
    for p in net.parameters():
        if p.dim() == 4:
            o, i, h, w = p.shape
            p.data = p.data.as_strided((o, i, h, w), (i * h * w, 1, w * i, i))
# <<< channels_last.model
