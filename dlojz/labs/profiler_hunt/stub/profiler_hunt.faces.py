# TODO: its trace says what is slow in here. Change it so that the rest of the file goes on working.
class Net(nn.Module):
    """Features (B, FEATURES) -> logits (B, ANSWERS)."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(64, 1) for _ in range(ANSWERS))  # one for each question

    def forward(self, faces):
        found = self.body(faces)
        return torch.cat([head(found) for head in self.heads], 1)


def mean_loss(outputs, answers):
    """The mean over all questions and faces; both are (B, ANSWERS)."""
    losses = [binary_cross_entropy_with_logits(outputs[:, i], answers[:, i]) for i in range(ANSWERS)]
    return sum(losses) / len(losses)
