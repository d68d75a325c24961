"""spotrun: a container that outlives its machine (the code is in the four folders linked here)."""

__version__ = "0.1.0"
