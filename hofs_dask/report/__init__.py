"""The result of a selection as people see it: text, a page and a figure."""
