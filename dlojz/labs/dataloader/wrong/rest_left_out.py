# expect: sequences of 1003 never come
# >>> dataloader.buckets
part, batches = 50 * batch_size, []
for first in range(0, len(order), part):
    alike = sorted(order[first : first + part], key=lambda index: lengths[index])
    batches += [alike[begin : begin + batch_size] for begin in range(0, len(alike) - batch_size + 1, batch_size)]
batches = [batches[number] for number in torch.randperm(len(batches), generator=generator).tolist()]
# <<< dataloader.buckets
