"""Measures Holdfast beside its peers. Start with `__main__.py`; docs/PERFORMANCE.md is made from its results."""
