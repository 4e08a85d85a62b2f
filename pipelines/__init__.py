"""Scripts for whole jobs; they call the package and hold no mathematics."""
