"""The local interface for scripts: the part of A1111's web API that other programs use, on this machine only."""
