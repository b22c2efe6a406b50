# expect: of its batches in common
# >>> dataloader.buckets
alike = sorted(range(len(lengths)), key=lambda index: lengths[index])
batches = [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]
# <<< dataloader.buckets
