"""What hostile code in the process that reads pickles can do, way by way: `python -m tests.bench.bench_confinement`."""

import tempfile
from pathlib import Path

from tests.helpers.confinement import attack


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        attacked = attack(Path(folder))
    for number, (way, what) in enumerate(attacked.tried.items(), 1):
        print(f"{number:3} {way:44} {what}")
    print(f"walls: {', '.join(sorted(attacked.walls))}; {list(attacked.tried.values()).count('escaped')} of them led out")


if __name__ == "__main__":
    main()
