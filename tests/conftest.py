"""For all tests: nothing of the user's is touched, nothing is fetched, and a test that leaves something behind fails.

* All data goes to a temporary folder, a fresh one for each test (`HALFTONE_DATA`).
* A test fails when threads or child processes are left after it.
* A test fails when it, or a process that it started, writes outside the folders of the tests, and when Halftone writes outside
  its own folders where nobody asked for it (`tests/helpers/writing`).
* A test fails on warnings in Halftone's log, unless it expects them: `@pytest.mark.logs("pattern", …)`. These must come.

`HALFTONE_TEST_DEVICE=card` runs the tests on the accelerator in software (`tests/accelerator`).

Qt is not touched here: the same tests run with PySide6 hidden (`tests/helpers/no_qt.py`).
"""

import gc
import importlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Before torch or Qt are imported by anything.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
_SESSION_DATA = Path(tempfile.mkdtemp(prefix="halftone-tests-"))
os.environ["HALFTONE_DATA"] = str(_SESSION_DATA)

from tests.helpers.leftovers import Leftovers  # noqa: E402
from tests.helpers.logs import LogWatch  # noqa: E402
from tests.helpers.writing import recorder  # noqa: E402

from halftone.worker.environment import prepare  # noqa: E402

prepare()
ON_CARD = importlib.import_module("tests.accelerator.on_card") if os.environ.get("HALFTONE_TEST_DEVICE") == "card" else None
settings.register_profile("steady", deadline=None, derandomize=True, database=None, print_blob=True)
settings.register_profile("explore", parent=settings.get_profile("steady"), derandomize=False, max_examples=2000)
settings.load_profile("steady")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "logs(*patterns): warnings that Halftone's log must show")
    config.addinivalue_line("markers", "processor(reason): the test is about the processor, and left out on another device")
    if ON_CARD is not None:
        config.pluginmanager.register(ON_CARD)


def pytest_unconfigure() -> None:
    shutil.rmtree(_SESSION_DATA, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def searched_again_at_the_end() -> Iterator[None]:
    yield
    gc.unfreeze()


@pytest.fixture(scope="module", autouse=True)
def what_stays_is_not_searched(searched_again_at_the_end: None) -> None:
    """What lives on where a module of tests begins lives until the end: taken out of the search, it does not slow a thousand
    collections down.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def writes_are_recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that names every forbidden write of this process and of those that it starts."""
    if given := os.environ.get(recorder.FILE):
        return Path(given)  # tests that a test runs
    report = _SESSION_DATA / "writes.txt"
    report.touch()
    os.environ[recorder.FILE] = str(report)
    os.environ[recorder.OWN] = str(_SESSION_DATA)
    os.environ[recorder.TESTS] = str(tmp_path_factory.getbasetemp())
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(tempfile.gettempdir(), "torchinductor_tests"))
    temporary = _SESSION_DATA / "temporary"
    temporary.mkdir()
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (recorder.FOLDER, os.environ.get("PYTHONPATH"))))
    recorder.record_here()
    return report


@pytest.fixture(autouse=True)
def nothing_written_elsewhere(writes_are_recorded: Path) -> Iterator[None]:
    """Fails the test that wrote where nobody may, or where nobody asked for it."""
    before = writes_are_recorded.stat().st_size
    yield
    if written := recorder.recorded(writes_are_recorded, before):
        pytest.fail(f"written: {written}", pytrace=False)


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fails the test when it leaves threads or child processes."""
    leftovers = Leftovers()
    yield
    if complaints := leftovers.after():
        pytest.fail("left behind: " + "; ".join(complaints), pytrace=False)


@pytest.fixture(autouse=True)
def quiet_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test on an unexpected warning in the log, and on an expected one that does not come."""
    expected = [str(pattern) for mark in request.node.iter_markers("logs") for pattern in mark.args]
    with LogWatch(expected) as watch:
        yield
    if complaints := watch.complaints():
        pytest.fail("; ".join(complaints), pytrace=False)


@pytest.fixture(autouse=True)
def own_data(nothing_left_behind: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder that holds this test's data, cache, logs and pictures."""
    folder = tmp_path_factory.mktemp("data")
    before = os.environ["HALFTONE_DATA"]
    os.environ["HALFTONE_DATA"] = str(folder)
    yield folder
    os.environ["HALFTONE_DATA"] = before


@pytest.fixture
def made_on_the_device() -> Iterator[None]:
    """What the test makes without naming a device lies on the one that the tests run on."""
    if ON_CARD is None:
        yield
        return
    from tests.accelerator.placing import Placing
    from tests.helpers.device import DEVICE

    with Placing(DEVICE):
        yield
