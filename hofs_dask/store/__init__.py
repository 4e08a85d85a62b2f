"""The code store: quantization of values to codes, and storage of the codes."""
