# >>> dataloader.seed
get_worker_info().dataset.rng.bit_generator.state = np.random.PCG64(np.random.randint(2**31)).state
# <<< dataloader.seed
# >>> dataloader.buckets
noise = (1 + 0.1 * torch.rand(len(lengths), generator=generator)).tolist()
alike = sorted(order, key=lambda index: lengths[index] * noise[index])
batches = [alike[begin : begin + batch_size] for begin in range(0, len(alike), batch_size)]
mixed = torch.randperm(len(batches), generator=generator).tolist()
batches = [batches[number] for number in mixed]
# <<< dataloader.buckets
