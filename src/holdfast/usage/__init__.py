"""What was used, by whom: counted windows and rows of note, handed over to the pipeline as numbered files."""
