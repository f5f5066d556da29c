"""What an operator can set: one frozen Config per process, from defaults, a TOML file, the environment and flags."""
