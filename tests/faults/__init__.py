"""Faults injected into runs on a real cluster, at seeded random moments.

``python -m tests.faults --minutes 30`` starts a scheduler, two workers and an object store, each in
a network namespace of its own if the user is root, and makes selections on them. In every case one
to three faults are injected into a run, such as a killed worker, a cut link or a full disk. The run
must give the result of the undisturbed run, bit by bit, or end with an error that says what to do.
After an error the fault is repaired and the same call is made again: it must give this result, and
must not repeat a round that was saved.
"""
