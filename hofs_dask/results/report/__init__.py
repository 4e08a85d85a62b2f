"""The HTML report of a result: its content as dataclasses, and the page that shows it.

`selection`, `comparison` and `interactions` compute the content from a Dataset. `page` renders it
as one file that loads nothing, `brief` as a short form for notebooks.
"""
