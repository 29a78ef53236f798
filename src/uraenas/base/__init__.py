"""What everything stands on: errors, keyed draws, whole files, locks, progress, SVG as text."""
