"""Without labels nothing of torch is needed, and results do not depend on how many cores there are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import make_lake, rows_of, write_pairs, write_table

import gentus
from gentus.index.folder import Layout

# A name in `sys.modules` that is None cannot be imported; `find_spec` looks there, too.
WITHOUT = "import sys\nsys.modules.update(dict.fromkeys(['torch', 'transformers']))\n"
# As where they are not installed: no finder knows them.
HIDDEN = """
import sys

class Hiding:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        hidden = name.split(".")[0] in ("torch", "transformers")
        return None if hidden else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Hiding, sys.meta_path)
"""
LOADED = "{name for name in ('torch', 'transformers') if sys.modules.get(name) is not None}"


def python(code: str, *arguments: object, threads: int = 1) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own."""
    number = str(threads)
    environment = os.environ | {"OMP_NUM_THREADS": number, "OPENBLAS_NUM_THREADS": number}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return make_lake(tmp_path / "lake", ["cities", "fish", "films", "birds"], 6)


LIFE = """
import sys
from pathlib import Path
import gentus
lake, folder, new, query = map(Path, sys.argv[1:])
with gentus.build(lake, folder, workers=1) as index:
    assert index.search(query, k=3, explain=True)[0].alignment
    assert len(index.search([query, query], k=3)) == 2
    assert index.add([new]).added
    new.rename(lake / "other name.csv")
    assert index.sync().added
    index.compact()
with gentus.refit(folder, workers=1) as index:
    assert list(index.search_many([query], k=3, workers=1))
from typer.testing import CliRunner
from gentus.app.cli import main as cli
commands = [
    ["search", str(folder), str(query), "--json"],
    ["info", str(folder)],
    ["check", str(folder)],
    ["align", str(folder), str(query), "fish_0.csv"],
    ["union", str(folder), str(query), "-o", str(folder.parent / "out.csv")],
    ["index", str(lake), "-o", str(folder.parent / "second")],
]
for command in commands:
    ran = CliRunner().invoke(cli.app, command)
    assert ran.exit_code == 0, (command, ran.output, ran.exception)
import gentus.app.serve.app, gentus.app.serve.run, gentus_bench.ours
from gentus.app.serve.app import make_app
from gentus.app.serve.server import Server
from gentus.app.serve.index_handle import IndexHandle
from gentus.app.serve.settings import Settings
make_app(Server(IndexHandle(folder), Settings()))
loaded = LOADED
assert not loaded, loaded
""".replace("LOADED", LOADED)


@pytest.mark.parametrize("hidden", ["", WITHOUT, HIDDEN], ids=["installed", "none", "hidden"])
def test_an_index_lives_without_torch(lake: Path, tmp_path: Path, hidden: str) -> None:
    new = write_table(lake / "fish_new.csv", rows_of("fish", 40))
    new = new.rename(tmp_path / "fish_new.csv")
    query = write_table(tmp_path / "query.csv", rows_of("fish", 41))
    ran = python(hidden + LIFE, lake, tmp_path / "index", new, query)
    assert ran.returncode == 0, ran.stderr


REFUSED = """
import gentus
read = []
import gentus.index.build as gentus_reading
gentus_reading.read_lake = lambda *_: read.append(1)
gentus_reading.load_groundtruth = lambda *_: read.append(2)
try:
    gentus.build(sys.argv[1], sys.argv[2], labels=sys.argv[3])
except ModuleNotFoundError as error:
    print(error)
assert not read, read
"""


@pytest.mark.parametrize("hidden", [WITHOUT, HIDDEN], ids=["none", "hidden"])
def test_labels_without_torch_are_refused_before_anything_is_read(
    lake: Path, tmp_path: Path, hidden: str
) -> None:
    labels = write_pairs(tmp_path / "labels.csv", [("fish_0.csv", "deep/er/fish_1.csv")])
    ran = python(hidden + REFUSED, lake, tmp_path / "index", labels)
    assert ran.returncode == 0, ran.stderr
    assert "pip install 'gentus[train]'" in ran.stdout
    assert "torch" in ran.stdout
    assert not (tmp_path / "index").exists()
    command = hidden + "from gentus.app.cli.main import main\nmain()\n"
    ran = python(command, "index", lake, "-o", tmp_path / "index", "--labels", labels)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "pip install 'gentus[train]'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("hidden", [WITHOUT, HIDDEN], ids=["none", "hidden"])
def test_a_refit_with_labels_without_torch_leaves_the_index_as_it_was(
    lake: Path, tmp_path: Path, hidden: str
) -> None:
    gentus.build(lake, tmp_path / "index", workers=1).close()
    before = contents(tmp_path / "index")
    labels = write_pairs(tmp_path / "labels.csv", [("fish_0.csv", "deep/er/fish_1.csv")])
    command = hidden + "from gentus.app.cli.main import main\nmain()\n"
    ran = python(command, "refit", tmp_path / "index", "--labels", labels)
    assert ran.returncode == 1
    assert "pip install 'gentus[train]'" in ran.stderr
    assert contents(tmp_path / "index") == before


def contents(folder: Path) -> dict[str, bytes]:
    """The model and the tree, byte by byte."""
    layout = Layout(folder)
    (model,) = folder.glob("model-*")
    files = [model, *(file for trie in folder.glob("trie-*") for file in sorted(trie.iterdir()))]
    assert len(files) > 5
    assert layout.is_index()
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


BUILD = """
import json, sys
import gentus
with gentus.build(sys.argv[1], sys.argv[2], seed=3, workers=int(sys.argv[4])) as index:
    hits = index.search(sys.argv[3], k=20)
print(json.dumps([[hit.table, hit.score] for hit in hits]))
"""


def test_cores_do_not_change_a_byte(tmp_path: Path) -> None:
    """With one BLAS thread and with two, with one reading process and with two, in two processes each."""
    lake = make_lake(tmp_path / "lake", slices=24)  # enough for products that BLAS would cut in parts
    query = write_table(tmp_path / "query.csv", rows_of("fish", 90))
    made, answers = [], []
    for number, (threads, workers) in enumerate([(1, 1), (2, 1), (2, 2), (1, 1)]):
        folder = tmp_path / f"index {number}"
        ran = python(BUILD, lake, folder, query, workers, threads=threads)
        assert ran.returncode == 0, ran.stderr
        made.append(contents(folder))
        answers.append([table for table, _ in json.loads(ran.stdout)])
    for other in made[1:]:
        assert other.keys() == made[0].keys()
        assert [name for name in other if other[name] != made[0][name]] == []
    assert all(answer == answers[0] for answer in answers)
