"""Functions under the names that other course kits gave them, for notebooks written for these."""
