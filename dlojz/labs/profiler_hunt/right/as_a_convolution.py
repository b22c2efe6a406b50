# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Conv1d(64, ANSWERS, 1)

    def forward(self, faces):
        return self.heads(self.body(faces)[:, :, None])[:, :, 0]


def mean_loss(outputs, answers):
    return torch.stack([binary_cross_entropy_with_logits(outputs, answers, reduction="none")]).mean(2).mean()
# <<< profiler_hunt.faces
