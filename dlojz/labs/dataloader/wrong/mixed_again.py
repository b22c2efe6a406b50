# expect: of the batches is padding; batches by chance
# >>> dataloader.buckets
order = sorted(order, key=lambda index: lengths[index])
order = [order[number] for number in torch.randperm(len(order), generator=generator).tolist()]
batches = [order[begin : begin + batch_size] for begin in range(0, len(order), batch_size)]
# <<< dataloader.buckets
