"""The Device page: what this device does, measured."""
