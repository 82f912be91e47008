"""What belongs to the DSP and is no Python: the Arm-side library, the CLI, headers. ``paths`` finds them."""
