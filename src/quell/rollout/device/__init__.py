"""One compiled program on an accelerator: the device engine's settings."""
