# right: TODO: written in a different way
# >>> parallelism.fit
sizes, seconds = (torch.as_tensor(numbers, dtype=torch.float64) for numbers in (sizes, seconds))
equations = torch.stack((1 / seconds, sizes / seconds), dim=1)
latency, per_byte = torch.linalg.lstsq(equations, torch.ones_like(seconds)[:, None]).solution.flatten().tolist()
return latency, 1 / per_byte
# <<< parallelism.fit

# wrong: TODO: a mistake that people make · expect: TODO: what the message of the check says
# >>> parallelism.fit
pass
# <<< parallelism.fit
