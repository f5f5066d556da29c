"""What is measured of Holdfast alone. Each experiment has a server of its own and returns figures and curves."""
