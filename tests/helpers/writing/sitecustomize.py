"""On PYTHONPATH of every process that tests start: Python imports it by its name, and it records writes there, too."""

import importlib.util
import os
from pathlib import Path

if os.environ.get("HALFTONE_TEST_WRITES"):
    _spec = importlib.util.spec_from_file_location("halftone_test_writes", Path(__file__).with_name("recorder.py"))
    assert _spec is not None
    assert _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_module)
    _module.record_here()
