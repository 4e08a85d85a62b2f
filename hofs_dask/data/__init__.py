"""Any input becomes chunked blocks, and those a code store."""
