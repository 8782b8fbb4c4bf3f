"""What `test_golden_outputs.py` runs, how it words the outcome, and the outputs that it keeps."""
