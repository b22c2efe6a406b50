# expect: with ANSWERS = 80 to \d+, so the answers are still done in pieces(.|\n)*the fence profiler_hunt.faces
# >>> profiler_hunt.faces
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU())
        self.heads = nn.Linear(64, ANSWERS)

    def forward(self, faces):
        return self.heads(self.body(faces))


def mean_loss(outputs, answers):
    losses = [binary_cross_entropy_with_logits(*piece) for piece in zip(outputs.split(10, 1), answers.split(10, 1))]
    return sum(losses) / len(losses)
# <<< profiler_hunt.faces
