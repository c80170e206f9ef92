"""Without labels neither torch nor SciPy is needed, and results do not depend on how many cores there are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import make_lake, rows_of, subject_of, write_pairs, write_table

import gentus
from gentus.index.folder import Layout

# A name in `sys.modules` that is None cannot be imported; `find_spec` looks there, too.
WITHOUT = "import sys\nsys.modules.update(dict.fromkeys(['scipy', 'torch', 'transformers']))\n"
# As where they are not installed: no finder knows them.
HIDDEN = """
import sys

class Hiding:
    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        hidden = name.split(".")[0] in ("scipy", "torch", "transformers")
        return None if hidden else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Hiding, sys.meta_path)
"""
LOADED = "{name for name in ('scipy', 'torch', 'transformers') if sys.modules.get(name) is not None}"


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


def test_an_index_lives_without_torch(lake: Path, tmp_path: Path) -> None:
    """It is installed, so that a try to import it would show."""
    new = write_table(lake / "fish_new.csv", rows_of("fish", 40))
    new = new.rename(tmp_path / "fish_new.csv")
    query = write_table(tmp_path / "query.csv", rows_of("fish", 41))
    ran = python(LIFE, lake, tmp_path / "index", new, query)
    assert ran.returncode == 0, ran.stderr


SEARCHES = """
import sys
from gentus.app.cli.main import main
try:
    main()
finally:
    print(*sys.modules)
"""


def test_a_search_loads_what_it_needs(built: Path) -> None:
    """Text is searched for without what reads typed files, writes unions, trains or serves."""
    ran = python(SEARCHES, "search", built / "index", built / "lake" / "fish_0.csv", "--quiet", "--explain")
    assert ran.returncode == 0, ran.stderr
    assert "fish_1.csv" in ran.stdout
    loaded = ran.stdout.splitlines()[-1].split()
    assert "gentus.index.index" in loaded
    needless = ("gentus.union", "pyarrow", "duckdb", "torch", "scipy", "transformers", "fastapi")
    assert not [name for name in loaded if name.startswith(needless)]


def test_a_ranking_is_learnt_from_labels_without_torch(lake: Path, tmp_path: Path) -> None:
    gentus.build(lake, tmp_path / "index", workers=1).close()
    labels = write_pairs(tmp_path / "labels.csv", [("fish_0.csv", "deep/er/fish_1.csv")])
    command = WITHOUT + "from gentus.app.cli.main import main\nmain()\n"
    ran = python(command, "refit", tmp_path / "index", "--labels", labels)
    assert ran.returncode == 0, ran.stderr
    with gentus.open(tmp_path / "index") as index:
        facts = index.info()
        assert facts["labels"]["pairs"] == 1
        assert facts["labels"]["ranking"]["chosen"] == "none"  # one query cannot validate anything


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
    """With one BLAS thread and reading process and with two, and once more."""
    lake = make_lake(tmp_path / "lake", slices=24)  # enough for products that BLAS would cut in parts
    query = write_table(tmp_path / "query.csv", rows_of("fish", 90))
    made, answers = [], []
    for number, (threads, workers) in enumerate([(1, 1), (2, 2), (1, 1)]):
        folder = tmp_path / f"index {number}"
        ran = python(BUILD, lake, folder, query, workers, threads=threads)
        assert ran.returncode == 0, ran.stderr
        made.append(contents(folder))
        answers.append([table for table, _ in json.loads(ran.stdout)])
    for other in made[1:]:
        assert other.keys() == made[0].keys()
        assert [name for name in other if other[name] != made[0][name]] == []
    assert all(answer == answers[0] for answer in answers)


LABELLED_LIFE = """
import sys
from pathlib import Path
import gentus
lake, folder, new, query, truth = map(Path, sys.argv[1:])
with gentus.open(folder) as index:
    assert index.info()["labels"]["ranking"]["training_queries"]
    hits = index.search(query, k=3, explain=True)
    assert hits[0].alignment
    assert len(index.search([query, query], k=3)) == 2
    assert index.add([new]).added
    assert index.remove([str(new)]).removed
    new.rename(lake / "other name.csv")
    assert index.sync().added
    index.compact()
    assert list(index.search_many([query], k=3, workers=1))
from typer.testing import CliRunner
from gentus.app.cli import main as cli
commands = [
    ["search", str(folder), str(query), "--json"],
    ["eval", str(folder), "--groundtruth", str(truth), "-k", "3"],
    ["info", str(folder)],
    ["check", str(folder)],
    ["align", str(folder), str(query), "fish_0.csv"],
    ["union", str(folder), str(query), "-o", str(folder.parent / "out.csv")],
    ["groups", str(folder)],
    ["sync", str(folder)],
]
for command in commands:
    ran = CliRunner().invoke(cli.app, command)
    assert ran.exit_code == 0, (command, ran.output, ran.exception)
from gentus.app.serve.app import make_app
from gentus.app.serve.server import Server
from gentus.app.serve.index_handle import IndexHandle
from gentus.app.serve.settings import Settings
from fastapi.testclient import TestClient
app = make_app(Server(IndexHandle(folder), Settings()))
with TestClient(app, base_url="http://localhost") as client:
    found = client.get("/api/search", params={"table": "fish_0.csv", "k": 3})
    assert found.status_code == 200, found.text
loaded = LOADED
assert not loaded, loaded
import json
print(json.dumps([[hit.table, hit.generated] for hit in hits]))
""".replace("LOADED", LOADED)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake, labels, and an index that was built with them."""
    root = tmp_path_factory.mktemp("labelled")
    lake = make_lake(root / "lake", ["cities", "fish", "films"], 6)
    names = sorted(str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file())
    pairs = [(a, b) for a in names for b in names if a != b and subject_of(a) == subject_of(b)]
    labels = write_pairs(root / "labels.csv", pairs)
    gentus.build(lake, root / "index", labels, workers=1).close()
    return root


def test_an_index_with_labels_lives_without_torch(labelled: Path, tmp_path: Path) -> None:
    query = write_table(tmp_path / "query.csv", rows_of("fish", 41))
    with gentus.open(labelled / "index") as index:
        expected = [[hit.table, hit.generated] for hit in index.search(query, k=3)]
    shutil.copytree(labelled, tmp_path / "home")
    lake, folder = tmp_path / "home" / "lake", tmp_path / "home" / "index"
    new = write_table(tmp_path / "fish_new.csv", rows_of("fish", 40))
    ran = python(
        f"{HIDDEN}import gentus\ngentus.open({str(folder)!r}).sync({str(lake)!r})\n" + LABELLED_LIFE,
        *(lake, folder, new, query, labelled / "labels.csv"),
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == expected
