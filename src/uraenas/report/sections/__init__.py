"""The sections of the page, one file each: facts of a run in, a Section out."""
