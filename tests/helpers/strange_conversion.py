"""A confined process that says what the file at its standard input holds, or waits for ever where that is "wait"."""

import os
import sys
import time

said = os.read(0, 2**16)
if said == b"wait":
    time.sleep(3600)
if said == b"talk":
    while True:
        sys.stderr.write('{"done": [1, 2]}\n')
        sys.stderr.flush()
        time.sleep(0.05)
os.write(2, said + b"\n")
