"""Stand-ins for TI's C7000 tools: they take the documented options only, and write ELF files of the right shape."""
