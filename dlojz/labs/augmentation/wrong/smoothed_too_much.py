# expect: with a smoothing of 0.2 gives \[0.05, 0.05, 1.05, 0.05\] for the label 2
# >>> augmentation.labels
hard = (labels[:, None] == torch.arange(classes, device=labels.device)).float()
return hard + hard.sum(1, keepdim=True) * smoothing / classes
# <<< augmentation.labels
