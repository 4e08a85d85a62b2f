"""From a source to a code store, on the engine."""
