# expect: batches are smaller than 7(.|\n)*one at most
# >>> dataloader.buckets
order = torch.randperm(len(lengths), generator=generator).tolist()
batches = []
for begin in range(0, len(order), 1000):
    part = sorted(order[begin : begin + 1000], key=lambda index: lengths[index])
    batches += [part[at : at + batch_size] for at in range(0, len(part), batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]
# <<< dataloader.buckets
