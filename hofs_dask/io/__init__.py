"""Any input becomes labelled, chunked blocks and a target; files, places and what has changed."""
