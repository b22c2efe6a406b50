# expect: come in the order of their length(.|\n)*dataloader.buckets
# >>> dataloader.buckets
alike = sorted(order, key=lambda index: lengths[index] + 6 * torch.rand((), generator=generator).item())
batches = [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
half = len(batches) // 2  # the short ones, and then the long ones
batches = [batches[first + number] for first, count in ((0, half), (half, len(batches) - half))
           for number in torch.randperm(count, generator=generator).tolist()]
# <<< dataloader.buckets
