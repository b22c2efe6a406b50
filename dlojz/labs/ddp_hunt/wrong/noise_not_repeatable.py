# expect: ddp_6.py: a second run makes other moves(.|\n)*ddp_hunt.noise
# >>> ddp_hunt.noise
generator = torch.Generator()
generator.seed()
# <<< ddp_hunt.noise
