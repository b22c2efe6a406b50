# TODO: from the centre half a side each way, cut off at the border. As it is, boxes are empty.
return torch.zeros(len(lam), 4, dtype=torch.int64)
