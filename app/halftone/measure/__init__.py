"""Devices, self-test, peaks, the probe and pictures. torch (inside functions where a window may look), no diffusers."""
