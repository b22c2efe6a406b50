# >>> memory.recomputed
# TODO: keep only the inputs of the block, or also the results of PRODUCTS. As it is, everything inside is kept.
todo("memory")
return block(*inputs)
# <<< memory.recomputed
# >>> memory.loss
# TODO: never hold more than a chunk of logits, in the backward pass neither. As it is, all of them are held, several times.
todo("memory")
return F.cross_entropy(head(x).flatten(0, 1).float(), targets.flatten())
# <<< memory.loss
# >>> memory.lora
# TODO: `linear` learns no more; `down` and `up` beside it do. As it is, the layer learns as before.
todo("memory")
self.linear = linear.requires_grad_(True)
# <<< memory.lora
# >>> memory.lora_forward
# TODO: add what goes down and up, scaled.
return self.linear(x)
# <<< memory.lora_forward
# >>> memory.step
# TODO: an optimizer for each parameter, which steps when the gradient is complete. As it is, one for all waits for your call.
todo("memory")
return [make(list(parameters))]
# <<< memory.step
