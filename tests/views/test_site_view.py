"""The cluster as its file says, and the quiz of day 0 about it."""

import pytest

from dlojz import cli, views
from dlojz.labs import questions, quiz, workspace
from dlojz.system import sites
from dlojz.system.errors import UsageError


@pytest.fixture
def here(tmp_path, monkeypatch):
    workspace.create(tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("DLOJZ_SITE", "laptop")
    monkeypatch.setenv("DLOJZ_PLAIN", "1")
    (tmp_path / "work" / "sites").mkdir()
    return tmp_path / "work"


def test_without_a_cluster_there_is_an_example(here):
    view = views.site()
    assert "an example, for your jobs go to no cluster: jean-zay" in str(view) and "An example" in view.page
    assert "A GPU comes with 10 cores there" in str(view) and "files unused for 30 days are deleted" in str(view)


def test_what_the_file_says(here, monkeypatch):
    (here / "sites" / "mine.toml").write_text("""
        launcher = "slurm"
        partition = "a"
        gpus = 2
        time = "0:30:00"
        directives = ["--reservation=course"]
        [partitions.a]
        nodes = 12
        gpu = "B200 <180 GB>"
        links = "NVLink"
        cores_per_gpu = 8
        default_qos = "dev"
        [partitions.a.qos]
        dev = { max_time = "0:30:00", max_gpus = 4 }
        [storage.scratch]
        path = "/scratch"
        lifetime = "a month"
        """)
    monkeypatch.setenv("DLOJZ_SITE", "mine")
    said = str(views.site())
    for words in ("A job that does not say more gets 2 GPUs for 30 min in the partition a.", "reservation course",
                  "dev (default)", "B200 <180 GB>", "a month"):
        assert words in said
    assert "memory per core" not in said and "quota" not in said, "columns that nothing fills"
    assert "B200 &lt;180 GB&gt;" in views.site().page
    assert "example" not in said and "Jean Zay" in str(views.site("jean-zay"))
    with pytest.raises(UsageError, match="there is no site"):
        views.site("nowhere")


def test_a_mistake_in_storage_has_its_line():
    with pytest.raises(UsageError, match=r"x\.toml, line 2: unknown key 'quotta'; did you mean 'quota'"):
        sites.parse('[storage.home]\nquotta = "3 GB"\n', "x")


def test_the_quiz_of_day_0(here, capsys):
    asked = questions.read(quiz.CLUSTER)
    assert [one.id for one in asked] == ["cores", "waiting", "dev", "linter", "python"]
    assert all(one.kind == "number" or (len(one.why) == len(one.options) - 1 and one.answer in one.options) for one in asked)
    assert cli.main(["quiz", "cluster", "cores", "24"]) == 0 and "Right" in capsys.readouterr().out
    assert cli.main(["quiz", "cluster"]) == 0 and "1 of 5 answered, 1 right" in capsys.readouterr().out
    assert cli.main(["progress"]) == 0, "it is no lab"
