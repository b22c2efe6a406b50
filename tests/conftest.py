"""What the tests of the training script share."""

import pytest


def pytest_collection_modifyitems(items):
    """The notebooks first: they take longest, and what comes last ends best together when it is short."""
    items.sort(key=lambda item: "notebooks" not in item.path.parts)


@pytest.fixture(scope="session")
def training_server():
    from training import Server

    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def training_images(tmp_path_factory):
    from training import make_images

    return make_images(tmp_path_factory.mktemp("images") / "set", train=24, val=10)


@pytest.fixture
def training(training_server, training_images, tmp_path):
    from training import Training

    training = Training(training_server, tmp_path, training_images)
    yield training
    training.close()
