"""Statistics as records, and the passes over the code store that total them."""
