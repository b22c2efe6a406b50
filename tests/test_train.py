"""The training script as a whole: what a run leaves, checkpoints, traces."""


def test_a_run_from_beginning_to_end(training):
    run = training.run("run", "-e", 2)
    assert len(run.losses) == 12
