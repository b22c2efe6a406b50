# >>> augmentation.labels
hard = torch.nn.functional.one_hot(labels.clamp(min=0), classes).float() * (labels >= 0)[:, None]
return hard * (1 - smoothing) + hard.sum(1, keepdim=True) * smoothing / classes
# <<< augmentation.labels
