# expect: the centre's x where its y belongs(.|\n)*augmentation.boxes
# >>> augmentation.boxes
half_width, half_height = (1 - lam).sqrt() * width / 2, (1 - lam).sqrt() * height / 2
y, x = centres[:, 0] * height, centres[:, 1] * width
return torch.stack([(x - half_width).round().clamp(0, width), (y - half_height).round().clamp(0, height),
                    (x + half_width).round().clamp(0, width), (y + half_height).round().clamp(0, height)], 1).long()
# <<< augmentation.boxes
