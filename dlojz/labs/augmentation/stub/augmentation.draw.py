# TODO: all three from rng, a numpy Generator. As it is, every image keeps all of itself and is its own partner.
return torch.ones(count), torch.arange(count), torch.full((count, 2), 0.5)
