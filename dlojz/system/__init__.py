"""The machine and its files: processes, locks, paths, sites, settings, errors. Imports nothing else of the kit."""
