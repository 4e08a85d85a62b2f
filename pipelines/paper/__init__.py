"""The paper made again: its tables and figures, our numbers beside its own."""
