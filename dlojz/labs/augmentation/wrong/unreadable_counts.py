# expect: gives \[0.05, 0.05, 0.05, 0.05\] for the label -100(.|\n)*nobody knows
# >>> augmentation.labels
hard = (labels[:, None] == torch.arange(classes, device=labels.device)).float()
return hard * (1 - smoothing) + smoothing / classes
# <<< augmentation.labels
