"""Read any input as labelled, chunked blocks and a target; file access and change detection."""
