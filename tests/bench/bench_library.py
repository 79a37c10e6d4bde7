"""What the index of the model library costs, against reading the headers alone and against walking the folders alone.

    PYTHONPATH=app:. python tests/bench/bench_library.py [--small]

10 000 names of four files with headers of real size (15 % Stable Diffusion 1.x, 15 % SDXL, 60 % LoRAs, 10 % embeddings), sparse
on the disk, in 40 folders of 5, a third with a preview and a fifth with a description. Each way runs in a process of its own, in
turns; the first scan by the clock, as it uses several processes, the others by the processor's time. `chrt -r 1` gives it a core.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench.common import Options, Row, alone, judged, ratio
from tests.helpers.headers import header_of, write_sparse
from tests.helpers.originals import original_names, published

FIRST = 2.0
AGAIN = 1.5
LISTED = 1.0
SEEN = 2.0
LOOKING = 0.02
_PARTS = 5
"""Headers are read in one of these, and the first scan: both take as long for each file."""
_LAYERS = ("attn1_to_q", "attn1_to_k", "attn1_to_v", "attn1_to_out_0", "attn2_to_q", "attn2_to_k", "attn2_to_v", "attn2_to_out_0")

_WAYS = """
import os, sys, time
from pathlib import Path
way, root, database = sys.argv[1:4]
from halftone.library.files.header import parse_header
from halftone.library.index.scan import scan
from halftone.library.index.store import Index
from halftone.library.index.watching import FILES, FOLDERS, Stamps

def walked():
    for folder, _, names in os.walk(root):
        for name in names:
            os.stat(os.path.join(folder, name))

def headers():
    for path in Path(root).rglob("*.safetensors"):
        with path.open("rb") as file:
            parse_header(file, path.stat().st_size, path)

def scanned():
    with Index(Path(database)) as index:
        scan(index, [root])

def listed():
    with Index(Path(database)) as index:
        assert sum(1 for _ in index.entries([root]))

def looked():
    with Index(Path(database)) as index:
        (found,) = scan(index, [root], patient=True)
    folders, files = Stamps(found.places, *FOLDERS), Stamps(found.contents, *FILES)
    print(folders.cost / max(FOLDERS[0], folders.cost / FOLDERS[1]) + files.cost / max(FILES[0], files.cost / FILES[1]))
    sys.exit()

work = {"look": looked, "walk": walked, "headers": headers, "first": scanned, "again": scanned, "list": listed}[way]
if way == "first":
    for end in ("", "-wal", "-shm"):
        Path(database + end).unlink(missing_ok=True)
elif way != "headers":
    work()
clock = time.perf_counter if way in ("first", "headers") else time.process_time
began = clock()
work()
print(clock() - began)
"""

_PAGE = """
import shutil, sys, time
from pathlib import Path
import msgspec
from PySide6.QtCore import QThreadPool
from PySide6.QtWidgets import QApplication
from halftone.gui.main import make_app
app = make_app(sys.argv[:1])
from tests.gui.shots import Stage
from tests.gui.shots_models import page as page_of
root, file = map(Path, sys.argv[1:])
stage = Stage()
session = stage.controller.session
session.settings.update(msgspec.structs.replace(stage.controller.settings, model_folders=(str(root),), library_asked=True))
session.library.start()
page = page_of(stage)
page.choose("place", "Embeddings")

def until(condition):
    while not condition():
        QApplication.processEvents()
        time.sleep(0.005)

def rested():
    library = session.state.library
    return library.read and library.watched[0].scanning is None and page.rows.ready and page.cards.items

until(rested)
new = root / "new on the page.safetensors"
shutil.copyfile(file, new)
began = time.perf_counter()
until(lambda: any(row.entry.path == str(new) for row in page.cards.items))
print(time.perf_counter() - began)
session.stop()
QThreadPool.globalInstance().waitForDone()
"""


def rows(options: Options) -> list[Row]:
    files = 200 if options.small else 10_000
    rounds = 2 if options.small else 3
    with tempfile.TemporaryDirectory(prefix="halftone-library-") as folder:
        root, database = Path(folder) / "models", Path(folder) / "index"
        _fill(root, files)
        seconds: dict[str, list[float]] = {way: [] for way in ("headers", "first", "walk", "again", "list", "look")}
        for _ in range(rounds):
            for way, found in seconds.items():
                places = (root / "0", f"{database}-0") if way in ("headers", "first") else (root, database)
                done = subprocess.run(
                    [sys.executable, "-c", _WAYS, way, *map(str, places)], capture_output=True, text=True, check=True,
                    env=os.environ,
                )  # fmt: skip
                found.append(float(done.stdout))
        seen = _seen(root, Path(folder) / "data")
        shown = _shown(root)
    first, again = ratio(seconds["first"], seconds["headers"]), ratio(seconds["again"], seconds["walk"])
    listed, looking = min(seconds["list"]), min(seconds["look"])
    return [
        (f"first scan of {files // _PARTS} files over reading their headers", str(first), f"at most {FIRST}",
         judged(first.median <= FIRST, options.small)),
        ("scan without changes over a bare walk", str(again), f"at most {AGAIN}", judged(again.median <= AGAIN, options.small)),
        ("list from the index, seconds", f"{listed:.2f}", f"below {LISTED}", judged(listed < LISTED, options.small)),
        ("looking for changes, of a core", f"{looking:.1%}", f"below {LOOKING:.0%}", judged(looking < LOOKING, options.small)),
        ("a new file is seen after, seconds", f"{seen:.1f}", f"below {SEEN}", judged(seen < SEEN, options.small)),
        ("a new file is on the page after, seconds", f"{shown:.1f}", f"below {SEEN}", judged(shown < SEEN, options.small)),
    ]  # fmt: skip


def _seen(root: Path, data: Path) -> float:
    """Seconds from the end of a copy until the process that watches has it in the index."""
    words = [sys.executable, "-P", "-m", "halftone", "index", "--watch", "--", str(root)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, env=os.environ | {"HALFTONE_DATA": str(data)}) as process:
        assert process.stderr is not None
        scans = (line for line in process.stderr if b'"scan"' in line)
        next(scans)
        time.sleep(1)
        shutil.copyfile(_least(root), root / "new.safetensors")
        began = time.perf_counter()
        next(scans)
        process.kill()
        return time.perf_counter() - began


def _shown(root: Path) -> float:
    """Seconds from the end of a copy until the Models page of a real window has a card for it."""
    words = [sys.executable, "-c", _PAGE, str(root), str(_least(root))]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | {"QT_QPA_PLATFORM": "offscreen"})
    return float(done.stdout.splitlines()[-1])


def _least(root: Path) -> Path:
    return min(root.rglob("*.safetensors"), key=lambda path: path.stat().st_size)


def _fill(root: Path, files: int) -> None:
    """Link four files under many names."""
    kinds = [write_sparse(root.parent / f"{number}.kind", header_of(names)) for number, names in enumerate(_kinds())]
    draw = random.Random(0)
    for number in range(files):
        folder = root / str(number % _PARTS) / f"folder {number % 40}"
        folder.mkdir(exist_ok=True, parents=True)
        os.link(draw.choices(kinds, (15, 15, 60, 10))[0], folder / f"model {number}.safetensors")
        if number % 3 == 0:
            (folder / f"model {number}.preview.png").write_bytes(b"picture")
        if number % 5 == 0:
            text = json.dumps({"model": {"name": f"Model {number}"}, "trainedWords": ["one", "two"]})
            (folder / f"model {number}.civitai.info").write_text(text)


def _kinds() -> Iterator[Mapping[str, tuple[int, ...]]]:
    """Names and shapes of the tensors of each file."""
    lora: dict[str, tuple[int, ...]] = {}
    for layer in [f"down_blocks_{block}_attentions_0_transformer_blocks_0_{name}" for block in range(33) for name in _LAYERS]:
        lora[f"lora_unet_{layer}.lora_down.weight"] = (16, 768)
        lora[f"lora_unet_{layer}.lora_up.weight"] = (320, 16)
        lora[f"lora_unet_{layer}.alpha"] = ()
    for kind in ("sd1", "sdxl"):
        yield {name: tuple(tensor.shape) for name, tensor in original_names(published(kind)).items()}
    yield lora
    yield {"emb_params": (8, 768)}


if __name__ == "__main__":
    alone(rows, __doc__)
