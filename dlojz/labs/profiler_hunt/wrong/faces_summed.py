# expect: slow_faces.py: with the same seed the loss of step 1 is 27.7259, and it was 0.6931
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Linear(64, ANSWERS)

    def forward(self, faces):
        return self.heads(self.body(faces))


def mean_loss(outputs, answers):
    return binary_cross_entropy_with_logits(outputs, answers, reduction="sum") / len(answers)
# <<< profiler_hunt.faces
