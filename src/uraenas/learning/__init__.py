"""The loops, as objects in memory: the search, and the training of weight chains; `methods.py`: what is run."""
