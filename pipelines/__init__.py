"""Scripts for complete jobs, built on the package."""
