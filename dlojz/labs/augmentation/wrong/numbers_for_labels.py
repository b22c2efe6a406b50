# expect: `soft_labels` of 4 labels, with 4 classes: .* which is float32 \(4,\)(.|\n)*float32 \(4, 4\)
# >>> augmentation.labels
return labels.float()
# <<< augmentation.labels
