# expect: slow_faces.py: with the same seed the loss of step \d+ is
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Linear(64, 1)

    def forward(self, faces):
        return self.heads(self.body(faces)).expand(-1, ANSWERS)


def mean_loss(outputs, answers):
    return binary_cross_entropy_with_logits(outputs, answers)
# <<< profiler_hunt.faces
