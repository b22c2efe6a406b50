# expect: ddp_6.py: in step 0 both processes move their first point by(.|\n)*ddp_hunt.noise
# >>> ddp_hunt.noise
generator = torch.Generator().manual_seed(SEED + 1000 * place.local_rank)
# <<< ddp_hunt.noise
